package mmapio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
)

// OpenReader opens a file to be read on demand, by system calls, on every
// platform: Slice returns copies. The file stays open until Close.
// It does not read through golang.org/x/exp/mmap, which maps the file on Unix systems and Windows: its reads
// would fault where a system call fails. Map reads through that package where nothing maps.
func OpenReader(path string) (*Mapping, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	m.live.Load().close = f.Close
	return m, nil
}

// FromFile returns a Mapping of the whole of an open file that is read on demand, by system
// calls, on every platform. f must stay open until Close, which leaves it open.
func FromFile(f *os.File) (*Mapping, error) {
	opened, err := openedIdentity(f) // refuses a nil f
	if err != nil {
		return nil, err
	}
	m := newMapping(f.Name(), uint64(opened.size), &backing{r: f, close: closeNothing})
	m.opened = opened
	return m, nil
}

// openRegular opens the file at path to read. It fails if that is not a regular file whose size fits an int. Others must not even be
// opened: a named pipe waits for its writer.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkFile(path, info)
	}
	if err != nil {
		return nil, err
	}
	return openShared(path)
}

// openedIdentity returns the identity of an open file. It fails if the file is not regular, or its size does not fit an int.
func openedIdentity(f *os.File) (Identity, error) {
	info, err := f.Stat()
	if err != nil {
		return Identity{}, err
	}
	if err := checkFile(f.Name(), info); err != nil {
		return Identity{}, err
	}
	return IdentityOf(info), nil
}

// checkFile returns an error if info, of the file at path, is not about a regular file whose size fits an int.
func checkFile(path string, info fs.FileInfo) error {
	if kind := info.Mode().Type(); kind != 0 {
		return pathError("map", path, fmt.Errorf("%w, not a regular file", cmp.Or(kinds[kind], fmt.Errorf("is of type %v", kind))))
	}
	return pathError("map", path, checkSize(info.Size(), math.MaxInt))
}

// kinds say what a file is that is not regular.
var kinds = map[fs.FileMode]error{
	fs.ModeDir:                        ErrDirectory,
	fs.ModeNamedPipe:                  errors.New("is a named pipe"),
	fs.ModeSocket:                     errors.New("is a socket"),
	fs.ModeDevice:                     errDevice,
	fs.ModeDevice | fs.ModeCharDevice: errDevice,
}

var errDevice = errors.New("is a device")

// checkSize returns an error for a size that is negative or over the limit.
func checkSize(size int64, limit uint64) error {
	if size < 0 {
		return fmt.Errorf("%w: size %d", ErrRange, size)
	}
	if uint64(size) > limit {
		return fmt.Errorf("%w: size %d, limit %d", ErrTooLarge, size, limit)
	}
	return nil
}
