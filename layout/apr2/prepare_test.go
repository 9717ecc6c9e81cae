package apr2

import (
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// prepared begins a file of one tensor. A late one has its head written last.
func prepared(t *testing.T, path string, late bool) *FileWriter {
	t.Helper()
	x := tensor("x", layout.U8, 100)
	if late {
		x = lz4Tensor("x", 0, layout.U8, 100)
	}
	w, err := Create(path, []layout.Tensor{x}, &Options{Metadata: layout.Metadata{{Key: "apr_version", Value: "2.0.0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteTensor(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPrepare(t *testing.T) {
	for _, late := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.apr")
		w := prepared(t, path, late)
		f, err := w.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file has its name already")
		}
		if _, err := w.Prepare(); !errors.Is(err, layout.ErrClosed) {
			t.Errorf("Prepare again: %v", err)
		}
		if err := w.Close(); !errors.Is(err, layout.ErrClosed) {
			t.Errorf("Close after Prepare: %v", err)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("Abort after Prepare: %v", err)
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mustDecode(t, layout.Bytes(b))
		if got, want := w.CRC32(), crc32.ChecksumIEEE(b[:len(b)-footerSize]); got != want {
			t.Errorf("late %v: CRC32 %08x, want %08x", late, got, want)
		}
	}
}

func TestPrepareIncomplete(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x.apr"), []layout.Tensor{tensor("x", layout.U8, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Prepare(); !errors.Is(err, layout.ErrTruncated) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}
