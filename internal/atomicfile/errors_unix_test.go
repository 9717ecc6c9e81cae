//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// speaksOf wants an error of one line about path and no other name.
func speaksOf(t *testing.T, path string, err, reason error) {
	t.Helper()
	pe, ok := err.(*fs.PathError)
	if !ok || pe.Path != path || !errors.Is(pe.Err, reason) {
		t.Errorf("%#v, want one about %q: %v", err, path, reason)
		return
	}
	if got, want := err.Error(), pe.Op+" "+path+": "+reason.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestErrorsNamePath(t *testing.T) {
	dir := t.TempDir()
	for path, reason := range map[string]error{
		"":                              syscall.ENOENT,
		dir:                             syscall.EISDIR,
		filepath.Join(dir, "none", "f"): syscall.ENOENT,
	} {
		_, err := Create(path)
		speaksOf(t, path, err, reason)
	}

	path := filepath.Join(dir, "f")
	f := write(t, path, "text")
	f.f.Close()
	_, err := f.Write([]byte("more"))
	speaksOf(t, path, err, fs.ErrClosed)
	speaksOf(t, path, f.Commit(), fs.ErrClosed)
	speaksOf(t, path, f.Commit(), fs.ErrClosed)
	files(t, dir, 0)

	f = write(t, path, "text")
	if err := os.Remove(f.f.Name()); err != nil {
		t.Fatal(err)
	}
	speaksOf(t, path, f.Commit(), syscall.ENOENT)

	f = write(t, path, "text")
	if err := os.Remove(f.f.Name()); err != nil {
		t.Fatal(err)
	}
	speaksOf(t, path, f.Abort(), syscall.ENOENT)
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	f, err := Create("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	_, err = f.Write([]byte("text"))
	speaksOf(t, "/dev/full", err, syscall.ENOSPC)
}
