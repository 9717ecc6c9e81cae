package mmapio

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// openers open a path in every way.
var openers = map[string]func(path string) (*Mapping, error){
	"Map":        Map,
	"OpenReader": OpenReader,
	"MapFile": func(path string) (*Mapping, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return MapFile(f)
	},
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	for name, open := range openers {
		if _, err := open(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s of a missing file: %v", name, err)
		}
		_, err := open(dir)
		want := "map " + dir + ": is a directory, not a regular file"
		if !errors.Is(err, ErrDirectory) || err.Error() != want {
			t.Errorf("%s of a directory: %v; want %s", name, err, want)
		}
	}
}

func TestMapFileErrors(t *testing.T) {
	if _, err := MapFile(nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("nil file: %v", err)
	}
	path := writeFile(t, noise(10))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	// Windows' os says that the handle is invalid.
	if _, err := MapFile(f); !errors.Is(err, fs.ErrClosed) && runtime.GOOS != "windows" || !strings.Contains(err.Error(), path) {
		t.Errorf("closed file: %v", err)
	}
}

func TestMapFileIgnoresPosition(t *testing.T) {
	content := noise(5000)
	f, err := os.Open(writeFile(t, content))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(1234, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	m := must(t)(MapFile(f))
	b, err := m.Slice(0, m.Size())
	if err != nil || !bytes.Equal(b, content) {
		t.Errorf("mapping does not start at the file's start (error %v)", err)
	}
	m.Close()
	if at, err := f.Seek(0, io.SeekCurrent); at != 1234 || err != nil {
		t.Errorf("position moved to %d (error %v)", at, err)
	}
}

func TestCheckSize(t *testing.T) {
	tests := []struct {
		size  int64
		limit uint64
		err   error
	}{
		{0, math.MaxInt32, nil},
		{math.MaxInt32, math.MaxInt32, nil},
		{math.MaxInt32 + 1, math.MaxInt32, ErrTooLarge},
		{math.MaxInt64, math.MaxInt32, ErrTooLarge},
		{math.MaxInt64, math.MaxInt64, nil},
		{-1, math.MaxInt64, ErrRange},
	}
	for _, tt := range tests {
		if err := checkSize(tt.size, tt.limit); !errors.Is(err, tt.err) {
			t.Errorf("checkSize(%d, %d) = %v, want %v", tt.size, tt.limit, err, tt.err)
		}
	}
}

// TestSparse opens a file far larger than memory: opening must not read it,
// and 32-bit machines must say that it is too large.
func TestSparse(t *testing.T) {
	const size = 100 << 30
	path := writeFile(t, []byte("head"))
	if err := os.Truncate(path, size); err != nil {
		t.Skip(err)
	}
	for name, open := range openers {
		m, err := open(path)
		if math.MaxInt == math.MaxInt32 {
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must(t)(m, err)
		if name == "MapFile" && !mapsFiles {
			continue // its file is closed by now
		}
		head, err := m.Slice(0, 4)
		if err != nil || string(head) != "head" {
			t.Errorf("%s: head %q, error %v", name, head, err)
		}
		tail, err := m.Slice(size-64, 64)
		if err != nil || !bytes.Equal(tail, make([]byte, 64)) {
			t.Errorf("%s: tail %v, error %v", name, tail, err)
		}
		if _, err := m.Slice(size-64, 65); !errors.Is(err, ErrRange) {
			t.Errorf("%s: beyond the end: %v", name, err)
		}
	}
}
