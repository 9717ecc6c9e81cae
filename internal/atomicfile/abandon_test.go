package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestAbandon(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed")
	}
	defer func() { temporaries.isAbandoned = false }()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	commit(t, write(t, path("committed"), "text"))
	if err := write(t, path("aborted"), "text").Abort(); err != nil {
		t.Fatal(err)
	}
	a, b := write(t, path("a"), "text"), write(t, path("b"), "text")
	if n := len(temporaries.names); n != 2 {
		t.Errorf("%d files remembered, 2 are open", n)
	}
	Abandon()
	files(t, dir, 1)
	holds(t, path("committed"), "text")
	for _, f := range []*File{a, b} {
		if err := f.Commit(); err == nil {
			t.Error("committed afterwards")
		}
	}
	if _, err := Create(path("c")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Create afterwards: %v", err)
	}
	files(t, dir, 1)
}

func TestAbandonedInPlace(t *testing.T) {
	f := write(t, os.DevNull, "text")
	if n := len(temporaries.names); n != 0 {
		t.Errorf("%d files remembered", n)
	}
	commit(t, f)
}

// TestAbandonedCommit: also what could not be removed does not get its name.
func TestAbandonedCommit(t *testing.T) {
	defer func(real operations) { sys, temporaries.isAbandoned = real, false }(sys)
	sys.remove = func(name string) error { return &fs.PathError{Op: "remove", Path: name, Err: errFault} }
	dir := t.TempDir()
	f, prepared := write(t, filepath.Join(dir, "f"), "text"), write(t, filepath.Join(dir, "prepared"), "text")
	if err := prepared.Prepare(); err != nil {
		t.Fatal(err)
	}
	Abandon()
	for _, f := range []*File{f, prepared} {
		if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
		if _, err := os.Lstat(f.path); err == nil {
			t.Errorf("%s is there", f.path)
		}
	}
	files(t, dir, 2)
}
