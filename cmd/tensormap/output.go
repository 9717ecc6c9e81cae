package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/shard"
)

// checkName returns an error if path cannot be the path of a new file: it is "-", or an address.
func checkName(path string) error {
	if path == "-" {
		return usageError{errors.New("-: files are not written to standard output; one of this name is ./-")}
	}
	if isAddress(path) {
		return fmt.Errorf("%s: is an address, which cannot be written to", shownName(path))
	}
	return nil
}

// checkOutput does what checkName does. It also returns an error if the folder of path does not exist, or if path is a file
// of models, which are being read.
func checkOutput(path string, models ...*loader.Model) error {
	if err := checkName(path); err != nil {
		return err
	}
	if path == "" {
		return &fs.PathError{Op: "open", Path: `""`, Err: syscall.ENOENT}
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT} // and not the name of its first shard
	}
	for _, m := range models {
		for _, f := range m.Files() {
			if err := checkDiffers(path, f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDiffers fails if path leads to the file at read, by whatever name. It is nil if either does not exist, or read is an address or "".
func checkDiffers(path, read string) error {
	if read == "" || isAddress(read) {
		return nil
	}
	out, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if in, err := os.Stat(read); err == nil && os.SameFile(in, out) {
		return fmt.Errorf("%s: is the file that is being read", path)
	}
	return nil
}

// isLoneShard reports whether m is one shard of a model, and not the manifest or index that leads to all.
func isLoneShard(m *loader.Model) bool {
	files := m.Files()
	return len(files) == 1 && (slices.Contains(files[0].Layout.Index().Flags, "SHARDED") || shard.IsShard(path.Base(filepath.ToSlash(files[0].Path))))
}

// writeFile creates a file of what write writes. It appears under its name if write succeeds, or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// unknownSize is the size of an output that is known only once it is written.
const unknownSize = 0

// writeOutput writes what write writes to the file called out, or to standard output if out is "". A file is created as by writeFile: then
// the progress towards size bytes is shown, and at the end how much was written how fast. It fails as checkOutput does for a file of models,
// if ctx ends, and if write does.
func writeOutput(ctx context.Context, s terminal.Streams, out string, size uint64, write func(io.Writer) error, models ...*loader.Model) error {
	if out == "" {
		return write(&parallel.Writer{Ctx: ctx, W: s.Out})
	}
	if err := checkOutput(out, models...); err != nil {
		return err
	}
	bar := terminal.NewProgress(s.Err, "writing")
	begun, written := time.Now(), uint64(0)
	err := writeFile(out, func(w io.Writer) error {
		return write(&parallel.Writer{Ctx: ctx, W: w, Wrote: func(n int) {
			if written += uint64(n); size != unknownSize {
				bar.Update(min(written, size), size) // a header may come on top
			}
		}})
	})
	took := time.Since(begun)
	bar.Clear()
	if err == nil {
		note(s.Err, "%s: wrote %s", out, report.Throughput(written, took))
	}
	return err
}
