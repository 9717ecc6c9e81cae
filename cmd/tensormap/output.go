package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tensormap/tensormap/layout/atomicfile"
	"github.com/tensormap/tensormap/loader"
)

// checkOutput refuses to replace a file of the model that is being read.
func checkOutput(path string, m *loader.Model) error {
	out, err := os.Stat(path)
	if err != nil {
		return nil // whoever creates the file says it better
	}
	for _, f := range m.Files() {
		if in, err := os.Stat(f.Path); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("%s: is the file that is being read", path)
		}
	}
	return nil
}

// writeFile makes a file of what write writes, complete or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return about(path, err)
	}
	defer f.Abort()
	if err := write(named{f, path}); err != nil {
		return err
	}
	return about(path, f.Commit())
}

// about words a system's error as one about path, which the user knows, and not about the
// temporary file that stands in for it.
func about(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// named says of errors which file they are about.
type named struct {
	w    io.Writer
	path string
}

func (n named) Write(b []byte) (int, error) {
	written, err := n.w.Write(b)
	return written, about(n.path, err)
}

// pieces passes large writes on in parts, so that an interrupt is noticed between them.
type pieces struct {
	ctx context.Context
	w   io.Writer
}

const pieceBytes = 4 << 20

func (p pieces) Write(b []byte) (written int, err error) {
	for {
		if err := p.ctx.Err(); err != nil {
			return written, err
		}
		piece := b[written:min(written+pieceBytes, len(b))]
		n, err := p.w.Write(piece)
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}
