package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// locate returns path or, if that is a directory, the path of the one model in it: among the files there, or else in a snapshot of the
// Hugging Face cache. It fails if the directory has no model or several, or cannot be read.
func locate(path string, o Options) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // also if there is no such file: mapping it will fail
	}
	file, err := chooseModelIn(path, o)
	if errors.Is(err, shard.ErrNoModel) {
		if path, err = snapshotOf(path); err == nil {
			file, err = chooseModelIn(path, o)
		}
	}
	return file, err
}

// mapPath maps the file at path, or with NoMap opens it to be read on demand. It fails if the system does.
func (o *Options) mapPath(path string) (*mmapio.Mapping, error) {
	if o.NoMap {
		return mmapio.OpenReader(path)
	}
	return mmapio.Map(path)
}

// chooseModelIn returns the path of the one model among the files in dir. It fails with shard.ErrNoModel if there is none. It also
// fails if there are several, or if dir cannot be read.
func chooseModelIn(dir string, o Options) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() {
			files = append(files, e.Name())
		}
	}
	name, err := shard.Choose(files, func(name string) *manifest.File { return manifestAt(filepath.Join(dir, name), o) })
	if err != nil {
		return "", directoryError(dir, "%w", err)
	}
	return filepath.Join(dir, name), nil
}

// directoryError returns the error of opening the directory dir as a model. format and args say what dir has instead of one model. The
// error wraps mmapio.ErrDirectory, and each argument that format has a %w for.
func directoryError(dir, format string, args ...any) error {
	return &fs.PathError{Op: "open", Path: dir, Err: fmt.Errorf("%w with "+format, append([]any{mmapio.ErrDirectory}, args...)...)}
}

// snapshotOf returns the path of a snapshot of the model in dir, which is the model's directory in the Hugging Face cache. It is the snapshot
// that refs/main names. If there is no refs/main, there must be a single snapshot. If dir has no snapshots, snapshotOf returns dir. It fails
// if refs/main names a snapshot that dir lacks. It also fails if there are several snapshots and no refs/main, or if dir cannot be read.
func snapshotOf(dir string) (string, error) {
	root, err := os.OpenRoot(dir) // so that links lead nowhere else
	if err != nil {
		return "", err
	}
	defer root.Close()
	isDir := func(name string) bool {
		info, err := root.Stat(filepath.Join("snapshots", name))
		return err == nil && info.IsDir()
	}
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	var names []string
	for _, e := range entries {
		if isDir(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if err != nil || len(names) == 0 { // no directory of snapshots, or none in it
		return dir, nil
	}
	main, err := readRefsMain(root)
	switch {
	case err == nil && slices.Contains(names, main):
		return filepath.Join(dir, "snapshots", main), nil
	case err == nil:
		return "", directoryError(dir, "refs/main in it, which names the snapshot %s, but only the snapshots %s", layout.Quote([]byte(main)), shard.Few(names))
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case len(names) > 1:
		return "", directoryError(dir, "%d snapshots in it, and no refs/main that names one: %s", len(names), shard.Few(names))
	}
	return filepath.Join(dir, "snapshots", names[0]), nil
}

// readRefsMain returns the text of refs/main below root, which names a snapshot. It fails with fs.ErrNotExist if there is no such
// file. It also fails if that is no regular file of at most 256 bytes, or cannot be read.
func readRefsMain(root *os.Root) (string, error) {
	const ref, maxBytes = "refs/main", 256
	info, err := root.Stat(ref)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return "", directoryError(root.Name(), "%s in it that is no file of one name", ref)
	}
	text, err := root.ReadFile(ref)
	return strings.TrimSpace(string(text)), err
}

// manifestAt returns the manifest in the file at path, or nil if the file is something else or cannot be read.
func manifestAt(path string, o Options) (m *manifest.File) {
	in, err := o.mapPath(path)
	if err != nil {
		return nil
	}
	defer in.Close()
	guardFile(path, func() error {
		f, _ := formats.Decode(in, o.Limits)
		m, _ = f.(*manifest.File)
		return nil
	})
	return m
}
