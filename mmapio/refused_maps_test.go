//go:build unix || windows

package mmapio

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestMappingRefused has the system refuse to map, whichever way a file is opened.
func TestMappingRefused(t *testing.T) {
	defer func() { mapPages = mapReadOnly }()
	mapPages = func(uintptr, int) ([]byte, error) { return nil, errors.New("refused") }
	content := noise(10_000)
	path := writeFile(t, content)
	open := func() (*os.File, error) { return os.Open(path) }
	for way, make := range map[string]func() (*Mapping, error){
		"Map": func() (*Mapping, error) { return Map(path) },
		"MapFile": func() (*Mapping, error) {
			f, err := open()
			if err != nil {
				return nil, err
			}
			defer f.Close() // which MapFile allows
			return MapFile(f)
		},
		"Lazy": func() (*Mapping, error) {
			m := Lazy(path, uint64(len(content)), open)
			if !m.Aliased() || !m.Mapped() {
				t.Error("a lazy mapping does not expect to be mapped")
			}
			return m, m.Populate(0, 1)
		},
	} {
		m, err := make()
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		got, err := m.Slice(5, 100)
		if err != nil || !bytes.Equal(got, content[5:105]) || m.Aliased() || m.Mapped() || m.Bytes() != nil {
			t.Errorf("%s: %d bytes, %v, aliased %v, mapped %v", way, len(got), err, m.Aliased(), m.Mapped())
		}
		if !m.Identity().Known() && way != "Lazy" {
			t.Errorf("%s: no identity", way)
		}
		for _, advice := range []Advice{WillNeed, DontNeed} {
			if err := m.Advise(advice, 0, 100); err != nil {
				t.Errorf("%s: %v: %v", way, advice, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := m.Slice(0, 1); err == nil {
			t.Errorf("%s: read after Close", way)
		}
	}
	if n := openDescriptors(path); n != 0 {
		t.Errorf("%d descriptors are open", n)
	}
}

// openDescriptors counts those of the process that lead to path, where there is a way to know.
func openDescriptors(path string) (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}
