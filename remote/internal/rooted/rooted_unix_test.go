//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rooted

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file that has another name, which may be that of somebody's keys, is not opened for writing. A name in place of which
// another file has come is not linked to.
func TestSecondNames(t *testing.T) {
	dir := t.TempDir()
	mine, file := filepath.Join(dir, "mine"), Path{dir, "file"}
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Link(mine, file.String())); err != nil {
		t.Fatal(err)
	}
	if f, err := file.Open(os.O_RDWR | os.O_CREATE); !errors.Is(err, ErrLink) {
		t.Error(f, err)
	}
	f, err := file.Open(os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (Path{dir, "third"}).Link(f); err != nil || !(Path{dir, "third"}).IsFile(f) {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(file.String()), os.WriteFile(file.String(), []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	fourth := Path{dir, "fourth"}
	if err := fourth.Link(f); err == nil {
		t.Error("another file has the name now")
	}
	if _, err := os.Lstat(fourth.String()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
