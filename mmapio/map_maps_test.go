//go:build unix || windows

package mmapio

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestMapped(t *testing.T) {
	for _, k := range makers {
		want := k.aliased && k.name != "FromBytes"
		if got := k.make(t, noise(100)).Mapped(); got != want {
			t.Errorf("%s: Mapped = %v", k.name, got)
		}
	}
}

func TestMapFileNeedsReading(t *testing.T) {
	path := writeFile(t, noise(10))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := MapFile(f); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) {
		t.Errorf("file open for writing only: %v", err)
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
