//go:build linux || darwin

package atomicfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipe writes a named pipe in place.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(path)
		got <- string(b)
	}()
	commit(t, write(t, path, "through"))
	if s := <-got; s != "through" {
		t.Errorf("read %q", s)
	}
	if mode(t, path)&os.ModeNamedPipe == 0 {
		t.Error("the pipe has been replaced")
	}
	files(t, dir, 1)
}

func TestDevice(t *testing.T) {
	commit(t, write(t, os.DevNull, "nothing"))
	if err := write(t, os.DevNull, "nothing").Abort(); err != nil {
		t.Error(err)
	}
	if mode(t, os.DevNull)&os.ModeDevice == 0 {
		t.Fatal("/dev/null has been replaced")
	}
}

// TestDescriptor writes to an anonymous pipe and to a file without a name, by the links
// that Linux has for them.
func TestDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	nameless, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	if err := os.Remove(nameless.Name()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{w, nameless} {
		path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
		if _, err := os.Lstat(path); err != nil {
			t.Skip(err)
		}
		commit(t, write(t, path, "through"))
	}
	w.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "through" {
		t.Errorf("read %q, %v", b, err)
	}
	if b, err := io.ReadAll(nameless); err != nil || string(b) != "through" {
		t.Errorf("the file without a name holds %q, %v", b, err)
	}
}
