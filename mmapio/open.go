package mmapio

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
)

// checkPath refuses what must not be opened: opening a named pipe would wait
// for the pipe's writer.
func checkPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	_, err = fileSize(path, info)
	return err
}

// identify returns the identity of an open file that is regular and whose size fits an int.
func identify(f *os.File) (Identity, error) {
	info, err := f.Stat()
	if err != nil {
		return Identity{}, err
	}
	if _, err := fileSize(f.Name(), info); err != nil {
		return Identity{}, err
	}
	return IdentityOf(info), nil
}

// fileSize returns the size of a regular file that fits an int.
func fileSize(path string, info fs.FileInfo) (int, error) {
	if !info.Mode().IsRegular() {
		return 0, pathError("map", path, fmt.Errorf("%w, not a regular file", kind(info.Mode())))
	}
	if err := checkSize(info.Size(), math.MaxInt); err != nil {
		return 0, pathError("map", path, err)
	}
	return int(info.Size()), nil
}

func checkSize(size int64, limit uint64) error {
	if size < 0 {
		return fmt.Errorf("%w: size %d", ErrRange, size)
	}
	if uint64(size) > limit {
		return fmt.Errorf("%w: size %d, limit %d", ErrTooLarge, size, limit)
	}
	return nil
}

func kind(mode fs.FileMode) error {
	switch mode.Type() {
	case fs.ModeDir:
		return ErrDirectory
	case fs.ModeNamedPipe:
		return errors.New("is a named pipe")
	case fs.ModeSocket:
		return errors.New("is a socket")
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return errors.New("is a device")
	}
	return fmt.Errorf("is of type %v", mode.Type())
}
