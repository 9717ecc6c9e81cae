package mmapio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// lose takes from m, a mapping of the file at path, all pages but those of its first n bytes. No mapped file can be
// truncated, so access is what they lose; the runtime treats that as it treats a page that cannot be read.
func lose(t testing.TB, m *Mapping, path string, n int) {
	t.Helper()
	var err error
	if b := m.Bytes(); b == nil {
		err = os.Truncate(path, int64(n))
	} else {
		var old uint32
		b = b[pageCeil(uint64(n)):]
		err = windows.VirtualProtect(address(b), uintptr(len(b)), windows.PAGE_NOACCESS, &old)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// protected returns a page that may not be written, nor read unless readable.
func protected(t testing.TB, readable bool) []byte {
	t.Helper()
	prot := uint32(windows.PAGE_NOACCESS)
	if readable {
		prot = windows.PAGE_READONLY
	}
	n := os.Getpagesize()
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_COMMIT|windows.MEM_RESERVE, prot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { windows.VirtualFree(addr, 0, windows.MEM_RELEASE) })
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

// TestMappedFileIsKept: nobody truncates a mapped file. It may be renamed, and whatever else is tried
// leaves the mapping as it is.
func TestMappedFileIsKept(t *testing.T) {
	content := noise(5 * os.Getpagesize())
	path := writeFile(t, content)
	m := must(t)(Map(path))
	for _, size := range []int64{0, 1, int64(os.Getpagesize())} {
		if err := os.Truncate(path, size); !errors.Is(err, windows.ERROR_USER_MAPPED_FILE) {
			t.Errorf("truncated to %d: %v", size, err)
		}
	}
	moved := filepath.Join(filepath.Dir(path), "moved")
	if err := os.Rename(path, moved); err != nil {
		t.Errorf("renamed: %v", err)
	}
	os.WriteFile(path, nil, 0o666)
	t.Logf("replaced: %v", os.Rename(path, moved)) // which depends on the version and the file system
	t.Logf("removed: %v", os.Remove(moved))
	if !bytes.Equal(m.Bytes(), content) {
		t.Error("the mapping has other bytes")
	}
}

// TestReadFileIsShared: a file that is read on demand can be renamed and removed meanwhile.
func TestReadFileIsShared(t *testing.T) {
	content := noise(100)
	path := writeFile(t, content)
	m := must(t)(OpenReader(path))
	moved := path + ".moved"
	if err := errors.Join(os.Rename(path, moved), os.Remove(moved)); err != nil {
		t.Error(err)
	}
	if b, err := m.Slice(0, 100); err != nil || !bytes.Equal(b, content) {
		t.Error(err)
	}
}

// TestLongPath maps a file whose path has more than 260 characters.
func TestLongPath(t *testing.T) {
	content := noise(100)
	dir := t.TempDir()
	for range 6 {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
	}
	path := filepath.Join(dir, "model")
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(path, content, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, open := range openers {
		m := must(t)(open(path))
		if b, err := m.Slice(0, 100); err != nil || !bytes.Equal(b, content) {
			t.Error(err)
		}
	}
}

func TestMemoryIsKnown(t *testing.T) {
	if n := Memory(); n < 64<<20 || n > 1<<60 {
		t.Errorf("%d bytes", n)
	}
}
