package sparse

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Info describes a File that need not be open.
type Info struct {
	Path string // without suffix
	Name string // as Options has it
	Size int64
	Have int64     // bytes that the map claims
	Disk int64     // bytes that the files take
	Used time.Time // when it was last opened
}

// mostName bounds what is read of a name.
const mostName = 64 << 10

// List describes the Files in a directory. Other files are left out.
func List(dir string) (list []Info, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range files {
		name, ok := strings.CutSuffix(e.Name(), mapSuffix)
		if !ok {
			continue
		}
		info, err := stat(filepath.Join(dir, name))
		switch {
		case err == nil:
			list = append(list, info)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF):
			return nil, err
		}
	}
	return list, nil
}

func stat(path string) (info Info, err error) {
	data, err := os.Stat(DataPath(path))
	if err != nil {
		return info, err
	}
	marks, err := os.Stat(MapPath(path))
	if err != nil {
		return info, err
	}
	f := &File{opts: Options{Size: data.Size()}, there: newChunks(chunksOf(data.Size()))}
	if f.marks, err = os.Open(MapPath(path)); err != nil {
		return info, err
	}
	defer f.marks.Close()
	head := make([]byte, headerBytes)
	if _, err := f.marks.ReadAt(head, 0); err != nil {
		return info, err
	}
	if string(head[:8]) != magic || binary.LittleEndian.Uint64(head[16:]) != uint64(data.Size()) {
		return info, io.EOF // it has only begun
	}
	if err := f.reload(0, f.there.n); err != nil {
		return info, err
	}
	name, err := io.ReadAll(io.NewSectionReader(f.marks, headerBytes+f.there.n, mostName))
	info = Info{Path: path, Name: string(name), Size: data.Size(), Have: f.Have(), Disk: diskBytes(data) + diskBytes(marks), Used: marks.ModTime()}
	return info, err
}

// Discard removes the file at path unless a process holds it. It reports whether the file is gone.
func Discard(path string) (gone bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), unlessGone(err)
	}
	defer f.Close()
	if !claim(f) || !named(f, path) {
		return false, nil
	}
	if base, ok := strings.CutSuffix(path, dataSuffix); ok {
		if err := unlessGone(os.Remove(MapPath(base))); err != nil {
			return false, err
		}
	}
	return true, unlessGone(os.Remove(path))
}

// Sweep removes what processes that were killed have left in a directory: a map without bytes, and bytes
// without a map.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unlessGone(err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if base, ok := strings.CutSuffix(path, mapSuffix); ok && missing(DataPath(base)) {
			errs = append(errs, unlessGone(os.Remove(path)))
		}
		if base, ok := strings.CutSuffix(path, dataSuffix); ok && missing(MapPath(base)) {
			_, err := Discard(path)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweepAge is how old a half of a File must be: another process may just be making the other.
var sweepAge = time.Minute

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// named reports whether path leads to f.
func named(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path) // a user may have moved it to another disk, behind a link
	return err == nil && os.SameFile(open, now)
}
