//go:build unix

package mmapio

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMapped(t *testing.T) {
	for _, k := range makers {
		want := k.aliased && k.name != "FromBytes"
		if got := k.make(t, noise(100)).Mapped(); got != want {
			t.Errorf("%s: Mapped = %v", k.name, got)
		}
	}
}

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
		for _, open := range []func(string) (*Mapping, error){Map, OpenReader, openMapped} {
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

func TestMapFileNeedsReading(t *testing.T) {
	path := writeFile(t, noise(10))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := MapFile(f); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), path) {
		t.Errorf("file open for writing only: %v", err)
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

func TestMapSharesTheFile(t *testing.T) {
	path := writeFile(t, noise(5000))
	m := must(t)(Map(path))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("new"), 4500); err != nil {
		t.Fatal(err)
	}
	if got := m.Bytes()[4500:4503]; string(got) != "new" {
		t.Errorf("the mapping reads %q", got)
	}
}

func TestRegistryIsEmptyAfterClose(t *testing.T) {
	registered := func() (n int) {
		mappings.Range(func(any, any) bool { n++; return true })
		return n
	}
	before := registered()
	m := must(t)(Map(writeFile(t, noise(5000))))
	if registered() != before+1 {
		t.Error("Map did not register")
	}
	m.Close()
	if registered() != before {
		t.Error("Close left its registration")
	}
}
