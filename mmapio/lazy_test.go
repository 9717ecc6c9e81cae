package mmapio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// counted opens path, and counts how often.
func counted(path string) (open func() (*os.File, error), opened *atomic.Int32) {
	opened = new(atomic.Int32)
	return func() (*os.File, error) {
		opened.Add(1)
		return os.Open(path)
	}, opened
}

// touches are the calls that make a lazy mapping; want is for those that read.
var touches = map[string]func(m *Mapping, want []byte) error{
	"Slice": func(m *Mapping, want []byte) error {
		b, err := m.Slice(0, m.Size())
		return matching(b, want, err)
	},
	"Bytes": func(m *Mapping, want []byte) error {
		if b := m.Bytes(); mapsFiles {
			return matching(b, want, nil)
		}
		return nil
	},
	"ReadAt": func(m *Mapping, want []byte) error {
		b := make([]byte, len(want))
		_, err := io.ReadFull(io.NewSectionReader(m, 0, int64(len(b))), b)
		return matching(b, want, err)
	},
	"Advise":   func(m *Mapping, _ []byte) error { return m.Advise(WillNeed, 0, m.Size()) },
	"Populate": func(m *Mapping, _ []byte) error { return m.Populate(0, m.Size()) },
}

func matching(b, want []byte, err error) error {
	if err == nil && !bytes.Equal(b, want) {
		return errors.New("other bytes than the file's")
	}
	return err
}

func TestLazyTouch(t *testing.T) {
	content := noise(10_000)
	path := writeFile(t, content)
	for name, touch := range touches {
		open, opened := counted(path)
		m := must(t)(Lazy(path, uint64(len(content)), open), nil)
		if m.Size() != uint64(len(content)) || m.Aliased() != mapsFiles || m.Mapped() != mapsFiles || !m.Pending() || opened.Load() != 0 {
			t.Errorf("%s: before: size %d, aliased %t, mapped %t, pending %t, opened %d times",
				name, m.Size(), m.Aliased(), m.Mapped(), m.Pending(), opened.Load())
		}
		for range 3 {
			if err := touch(m, content); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if m.Pending() || opened.Load() != 1 {
			t.Errorf("%s: after: pending %t, opened %d times", name, m.Pending(), opened.Load())
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := m.Slice(0, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: after Close: %v", name, err)
		}
	}
}

func TestLazyNeverTouched(t *testing.T) {
	open, opened := counted("nowhere")
	m := Lazy("nowhere", 5, open)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for name, touch := range touches {
		if err := touch(m, make([]byte, 5)); name != "Bytes" && !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if opened.Load() != 0 || m.Bytes() != nil {
		t.Errorf("opened %d times", opened.Load())
	}
}

// TestLazyTriesAgain: the answer to one call that failed is not the answer to the next.
func TestLazyTriesAgain(t *testing.T) {
	content := noise(100)
	path := writeFile(t, content[:99])
	open, opened := counted(path)
	m := must(t)(Lazy(path, 100, open), nil)
	if _, err := m.Slice(0, 1); !errors.Is(err, ErrChanged) || !m.Pending() {
		t.Errorf("a file of another size: %v", err)
	}
	if m.Bytes() != nil {
		t.Error("Bytes of a file of another size")
	}
	os.Remove(path)
	if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := m.Slice(0, 100); matching(b, content, err) != nil || opened.Load() != 4 {
		t.Errorf("%v, opened %d times", err, opened.Load())
	}
}

func TestLazyNoFile(t *testing.T) {
	dir := t.TempDir()
	m := must(t)(Lazy(dir, 100, func() (*os.File, error) { return os.Open(dir) }), nil)
	if _, err := m.Slice(0, 1); err == nil {
		t.Error("a directory was mapped")
	}
}

// TestLazyRace lets many touch first while one closes: whoever gets bytes gets the right
// ones, copied before Close can end them, and the file is opened once at most.
func TestLazyRace(t *testing.T) {
	content := noise(5000)
	path := writeFile(t, content)
	for range 200 {
		open, opened := counted(path)
		m := Lazy(path, uint64(len(content)), open)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				<-start
				b := make([]byte, 100)
				if _, err := m.ReadAt(b, 300); err == nil && !bytes.Equal(b, content[300:400]) || err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				m.Pending()
			})
		}
		wg.Go(func() {
			<-start
			m.Close()
		})
		close(start)
		wg.Wait()
		if n := opened.Load(); n > 1 {
			t.Fatalf("opened %d times", n)
		}
	}
}
