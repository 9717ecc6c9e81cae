package atomicfile

import (
	"io"
	"io/fs"
)

// WriteAt overwrites bytes at offset off with b. It does not move the place where Write goes on.
// Devices and pipes may refuse it.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if f.prepared {
		return 0, about(f.path, fs.ErrClosed)
	}
	n, err := f.f.WriteAt(b, off)
	return n, about(f.path, err)
}

// ReadAt reads bytes that have been written, until the file has its name. A file written in
// place may refuse it.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if err == io.EOF {
		return n, err
	}
	return n, about(f.path, err)
}

// Truncate changes the size of the file. It does not move the place where Write goes on.
func (f *File) Truncate(size int64) error {
	if f.prepared {
		return about(f.path, fs.ErrClosed)
	}
	return about(f.path, f.f.Truncate(size))
}

// Seek sets where Write goes on.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.prepared {
		return 0, about(f.path, fs.ErrClosed)
	}
	at, err := f.f.Seek(offset, whence)
	return at, about(f.path, err)
}
