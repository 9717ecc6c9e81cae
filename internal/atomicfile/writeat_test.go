package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"testing"
)

func TestWriteAtAndTruncate(t *testing.T) {
	path := t.TempDir() + "/x"
	f := write(t, path, "0123456789")
	for _, err := range []error{
		func() error { _, err := f.WriteAt([]byte("ab"), 1); return err }(),
		f.Truncate(5),
		func() error { _, err := f.Seek(5, io.SeekStart); return err }(),
		func() error { _, err := f.Write([]byte("cd")); return err }(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	commit(t, f)
	holds(t, path, "0ab34cd")
}

func TestWriteAtErrorNamesPath(t *testing.T) {
	path := t.TempDir() + "/x"
	f := write(t, path, "")
	commit(t, f)
	for _, err := range []error{f.Truncate(0), func() error { _, err := f.Seek(0, io.SeekStart); return err }(), func() error { _, err := f.WriteAt([]byte("a"), 0); return err }()} {
		var pe *fs.PathError
		if !errors.As(err, &pe) || pe.Path != path {
			t.Errorf("%v does not name %s", err, path)
		}
	}
}
