package mmapio

import (
	"fmt"
	"os"
	"sync"
)

// Lazy returns a Mapping of a file of size bytes that is opened when one of its
// bytes is first asked for, by whichever method. open opens it, and answers with
// an error where what it finds is not the file that was meant; the Mapping then
// owns the *os.File. It closes it as soon as it is mapped, or with Close where
// the platform does not map.
//
// A file of another size is ErrChanged. An error is the answer of the call that
// met it and of no other: the next one tries again.
//
// path is for errors.
func Lazy(path string, size uint64, open func() (*os.File, error)) *Mapping {
	return &Mapping{path: path, size: size, aliased: canMap, mapped: canMap && size > 0, lazy: &lazy{open: open}}
}

// Pending reports whether this is a lazy mapping that nobody has asked for a byte, or a
// closed one.
func (m *Mapping) Pending() bool { return m.live.Load() == nil }

// lazy makes the backing of a Mapping.
type lazy struct {
	mu   sync.Mutex
	open func() (*os.File, error) // nil after Close
}

// make is for a caller that holds off Close.
func (l *lazy) make(m *Mapping) (*backing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := m.live.Load(); b != nil {
		return b, nil
	}
	if l.open == nil {
		return nil, ErrClosed
	}
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	b, err := mapWhole(f, m.size)
	if err != nil {
		f.Close()
		return nil, err
	}
	m.live.Store(b)
	return b, nil
}

func (l *lazy) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = nil
}

// mapWhole is the backing of a Mapping of f, which must have size bytes. It takes f over
// unless it fails.
func mapWhole(f *os.File, size uint64) (*backing, error) {
	m, err := MapFile(f)
	if err != nil {
		return nil, err
	}
	if m.size != size {
		m.Close()
		return nil, fmt.Errorf("%w: %d bytes, not %d", ErrChanged, m.size, size)
	}
	b := m.live.Load()
	if m.aliased {
		f.Close() // nothing was written, so nothing can be lost
		return b, nil
	}
	return &backing{r: b.r, close: f.Close}, nil
}
