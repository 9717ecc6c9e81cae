package sparse

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// Info describes a File that need not be open.
type Info struct {
	Path rooted.Path // without suffix
	Name string      // as Options has it
	Size int64
	Have int64     // bytes that the map claims
	Disk int64     // bytes that the files take
	Used time.Time // when it was last opened
}

// maxNameAndVersion is the maximum number of bytes that are read of a map's name and version together.
const maxNameAndVersion = 64 << 10

// List returns an Info of each File in a directory, as it lies on disk. For a missing directory it returns none. List leaves out a File
// that another process has only begun to make, or has just removed. It fails if the directory or a map cannot be read.
func List(dir rooted.Path) (list []Info, err error) {
	files, err := os.ReadDir(dir.String())
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	for _, e := range files {
		name, ok := strings.CutSuffix(e.Name(), mapSuffix)
		if !ok {
			continue
		}
		info, err := describe(dir.Join(name))
		switch {
		case err == nil:
			list = append(list, info)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, io.EOF): // removed, or only begun
		default:
			return nil, err
		}
	}
	return list, nil
}

// describe returns the Info of the File called path, by reading its data file and its map. It fails with io.EOF if the map has no header
// for the data file: a process has only begun to make the File. It fails with fs.ErrNotExist if one of the two is missing. It also fails if
// they cannot be opened or read.
func describe(path rooted.Path) (info Info, err error) {
	data, err := os.Stat(DataPath(path).String())
	if err != nil {
		return info, err
	}
	marks, err := os.Stat(MapPath(path).String())
	if err != nil {
		return info, err
	}
	f := &File{opts: Options{Size: data.Size()}, presentChunks: newChunks(chunkCount(data.Size()))}
	if f.mapFile, err = MapPath(path).Open(os.O_RDONLY); err != nil {
		return info, err
	}
	defer f.mapFile.Close()
	head := make([]byte, headerBytes)
	if _, err := f.mapFile.ReadAt(head, 0); err != nil {
		return info, err
	}
	if string(head[:len(magic)]) != magic || binary.LittleEndian.Uint64(head[16:]) != uint64(data.Size()) {
		return info, io.EOF // a process has only begun to make it
	}
	if _, err := f.readMarks(0, f.presentChunks.end); err != nil {
		return info, err
	}
	name, _, err := f.nameAndVersion()
	info = Info{Path: path, Name: name, Size: data.Size(), Have: f.Have(), Disk: rooted.DiskBytes(data) + rooted.DiskBytes(marks), Used: marks.ModTime()}
	return info, err
}

// Discard removes the file at path, unless a process has it open. For a data file it also removes the map. removed is true if no file is at
// path then, also if there was none before. removed is false without an error if a process has the file open, or has moved or replaced it
// meanwhile. Discard fails if a file cannot be opened or removed.
func Discard(path rooted.Path) (removed bool, err error) {
	f, err := path.Open(os.O_RDWR)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoreNotExist(err)
	}
	defer f.Close()
	if !rooted.TryLock(f) || !path.IsFile(f) {
		return false, nil
	}
	if base, ok := strings.CutSuffix(path.Name, dataSuffix); ok {
		if err := MapPath(rooted.Path{Dir: path.Dir, Name: base}).Remove(); err != nil {
			return false, err
		}
	}
	return true, path.Remove()
}

// Sweep removes from a directory what killed processes have left: maps without a data file, and data files without a map. It leaves files
// younger than sweepAge, and data files that are open. For a missing directory it does nothing. It fails if the directory cannot be read,
// or if a file cannot be removed.
func Sweep(dir rooted.Path) error {
	entries, err := os.ReadDir(dir.String())
	if err != nil {
		return ignoreNotExist(err)
	}
	var errs []error
	for _, e := range entries {
		path := dir.Join(e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if base, ok := strings.CutSuffix(e.Name(), mapSuffix); ok && isMissing(DataPath(dir.Join(base))) {
			errs = append(errs, path.Remove())
		}
		if base, ok := strings.CutSuffix(e.Name(), dataSuffix); ok && isMissing(MapPath(dir.Join(base))) {
			_, err := Discard(path)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweepAge is the minimum age of what Sweep removes: a younger File may be one that a process is just making.
var sweepAge = time.Minute

// isMissing reports whether nothing exists at path, not even a link.
func isMissing(path rooted.Path) bool {
	_, err := os.Lstat(path.String())
	return errors.Is(err, fs.ErrNotExist)
}

// ignoreNotExist returns err, or nil if err says that a file does not exist.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// LockUntilClosed locks the open file f until it is closed, so that Discard in no process removes it. Where the file system has no locks,
// it locks nothing. It reports whether path, with links followed, still leads to f. If not, a process may have removed f before.
func LockUntilClosed(f *os.File, path string) bool {
	rooted.LockShared(f)
	open, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(open, now)
}
