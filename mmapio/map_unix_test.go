//go:build unix

package mmapio

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tests := []struct{ path, kind string }{
		{pipe, "a named pipe"},
		{socket, "a socket"},
		{"/dev/zero", "a device"},
	}
	for _, tt := range tests {
		want := "map " + tt.path + ": is " + tt.kind + ", not a regular file"
		for _, open := range []func(string) (*Mapping, error){Map, OpenReader} {
			if _, err := open(tt.path); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	if _, err := MapFile(zero); err == nil || !strings.Contains(err.Error(), "/dev/zero: is a device") {
		t.Errorf("MapFile of a device: %v", err)
	}
}

func TestMapOutlivesName(t *testing.T) {
	content := noise(5000)
	path := writeFile(t, content)
	m := must(t)(Map(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bytes(), content) {
		t.Error("mapping changed when the file was removed")
	}
}

// lose takes from m, a mapping of the file at path, all pages but those of its first n bytes.
func lose(t testing.TB, _ *Mapping, path string, n int) {
	t.Helper()
	if err := os.Truncate(path, int64(n)); err != nil {
		t.Fatal(err)
	}
}

// protected returns a page that may not be written, nor read unless readable.
func protected(t testing.TB, readable bool) []byte {
	t.Helper()
	prot := unix.PROT_NONE
	if readable {
		prot = unix.PROT_READ
	}
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), prot, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}
