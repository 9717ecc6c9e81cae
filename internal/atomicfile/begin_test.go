package atomicfile

import (
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// header is an encoder that writes one on construction.
type header struct{ file *File }

func begin(f *File) (*header, error) {
	_, err := io.WriteString(f, "head")
	return &header{f}, err
}

func TestBegin(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	commit(t, write(t, path, "old"))
	no := errors.New("no")
	w, err := Begin(path, func(f *File) (*header, error) {
		w, _ := begin(f)
		return w, no
	})
	if w != nil || err != no {
		t.Errorf("%v, %v", w, err)
	}
	files(t, dir, 1)
	holds(t, path, "old")
	if w, err := Begin(filepath.Join(dir, "none", "f"), begin); w != nil || err == nil {
		t.Errorf("in a directory that is not there: %v, %v", w, err)
	}

	if w, err = Begin(path, begin); err != nil {
		t.Fatal(err)
	}
	if err := w.file.CommitIf(no); err != no {
		t.Errorf("CommitIf: %v", err)
	}
	files(t, dir, 1)
	holds(t, path, "old")

	if w, err = Begin(path, begin); err != nil {
		t.Fatal(err)
	}
	if err := w.file.CommitIf(nil); err != nil {
		t.Error(err)
	}
	if err := w.file.CommitIf(no); err != no {
		t.Errorf("CommitIf after that: %v", err)
	}
	files(t, dir, 1)
	holds(t, path, "head")
}
