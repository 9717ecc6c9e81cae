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
	defer func() { temporaries.abandoned = false }()
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
