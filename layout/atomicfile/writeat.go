package atomicfile

import "io"

// WriteAt overwrites b at offset off; it does not move the place where Write goes on. What
// is no regular file may refuse it.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(b, off)
	return n, about(f.path, err)
}

// Truncate cuts the file to size bytes, and lets Write go on there.
func (f *File) Truncate(size int64) error {
	err := f.f.Truncate(size)
	if err == nil {
		_, err = f.f.Seek(size, io.SeekStart)
	}
	return about(f.path, err)
}
