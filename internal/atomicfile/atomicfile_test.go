package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

func write(t *testing.T, path, text string) *File {
	t.Helper()
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	return f
}

func commit(t *testing.T, f *File) {
	t.Helper()
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v, want %q", path, b, err, want)
	}
}

// files makes sure of the number of files in a directory, which temporary ones count to.
func files(t *testing.T, dir string, want int) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
		t.Errorf("in the directory: %v, %v, want %d", entries, err, want)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for i, text := range []string{"first", "second", ""} {
		f := write(t, path, text)
		files(t, dir, min(i, 1)+1) // the temporary one, and the old one
		commit(t, f)
		holds(t, path, text)
		files(t, dir, 1)
		if err := f.Abort(); err != nil {
			t.Errorf("Abort after Commit: %v", err)
		}
		holds(t, path, text)
		if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Commit: %v", err)
		}
	}
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := write(t, path, "never")
	for range 2 {
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
		files(t, dir, 0)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit after Abort: %v", err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, "new").Abort()
	holds(t, path, "old")
	files(t, dir, 1)
}

// TestCommitFails puts a directory where the file is to go.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := write(t, path, "text")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil {
		t.Error("a directory was replaced")
	}
	files(t, dir, 1)
	if err := f.Abort(); err != nil {
		t.Errorf("Abort afterwards: %v", err)
	}
}

func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dir, dir + "/", filepath.Join(dir, "none", "f"), dir + "/none/", filepath.Join(dir, "file", "f")} {
		if f, err := Create(path); err == nil || f != nil {
			t.Errorf("Create(%q) works", path)
		}
	}
	files(t, dir, 1)
}

func TestRelativeAndLongNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	long := strings.Repeat("ü", 127) // 254 bytes, where most file systems allow 255
	for _, name := range []string{"f", long, "./g"} {
		commit(t, write(t, name, name))
		holds(t, filepath.Join(dir, name), name)
	}
	files(t, dir, 3)
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "wasip1" { // where WASI has none, Go answers 0600
		t.Skip("no permission bits")
	}
	dir := t.TempDir()
	path, plain := filepath.Join(dir, "f"), filepath.Join(dir, "plain")
	p, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	commit(t, write(t, path, "new"))
	if got, want := mode(t, path), mode(t, plain); got != want {
		t.Errorf("new file: %v, want %v as os.Create", got, want)
	}
	for _, perm := range []fs.FileMode{0o600, 0o666, 0o777, 0o444} {
		if err := os.Chmod(path, perm); err != nil {
			t.Fatal(err)
		}
		commit(t, write(t, path, "newer"))
		if got := mode(t, path); got != perm {
			t.Errorf("replaced file: %v, want %v", got, perm)
		}
	}
}

func TestSymlinks(t *testing.T) {
	testmode.Symlinks(t)
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"a": "b", "b": "inner/f", "dir": "inner", "loop": "loop",
		"inner/up": "../top", "abs": filepath.Join(inner, "abs"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	// Each is written twice: first the link leads nowhere, then to a file.
	for link, file := range map[string]string{"a": "inner/f", "dir/up": "top", "abs": "inner/abs"} {
		for _, text := range []string{"one", "two"} {
			commit(t, write(t, filepath.Join(dir, link), text))
			holds(t, filepath.Join(dir, file), text)
			if info, err := os.Lstat(filepath.Join(dir, file)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %v, %v", file, info, err)
			}
			if _, err := os.Readlink(filepath.Join(dir, link)); err != nil {
				t.Errorf("%s: the link is gone: %v", link, err)
			}
		}
	}
	if _, err := Create(filepath.Join(dir, "loop")); err == nil {
		t.Error("a link to itself")
	}
	files(t, inner, 3)
	files(t, dir, 7)
}
