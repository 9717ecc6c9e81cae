package mmapio

import (
	"fmt"
	"os"
)

// Lazy returns a Mapping of a file of size bytes that is opened when one of its
// bytes is first asked for, by whichever method. open opens it, and returns
// an error if it finds another file than the one that was meant. The Mapping
// owns the *os.File. It closes it as soon as it is mapped, or with Close if
// it cannot be mapped.
//
// A file of another size is ErrChanged. An error is the answer of the call that
// met it and of no other: the next one tries again.
//
// path is for errors.
func Lazy(path string, size uint64, open func() (*os.File, error)) *Mapping {
	m := &Mapping{path: path, size: size, open: open}
	m.aliased.Store(canMap)
	m.mapped.Store(canMap && size > 0)
	return m
}

// Pending reports whether this is a lazy mapping that nobody has asked for a byte, or a
// closed one.
func (m *Mapping) Pending() bool { return m.live.Load() == nil }

// mapNow opens and maps the file, once, and returns its backing. The caller holds off Close. It fails if open does, or the file has another
// size.
func (m *Mapping) mapNow() (*backing, error) {
	m.making.Lock()
	defer m.making.Unlock()
	if b := m.live.Load(); b != nil {
		return b, nil
	}
	f, err := m.open()
	if err != nil {
		return nil, err
	}
	b, err := mapWhole(f, m.path, m.size)
	if err != nil {
		f.Close()
		return nil, err
	}
	if b.r != nil { // the expectation was wrong
		m.aliased.Store(false)
		m.mapped.Store(false)
	}
	m.live.Store(b)
	return b, nil
}

// mapWhole returns the backing of a Mapping of f, which must have size bytes. It takes f over
// unless it fails. A file that cannot be mapped is read.
func mapWhole(f *os.File, path string, size uint64) (*backing, error) {
	opened, err := openedIdentity(f)
	if err != nil {
		return nil, err
	}
	if uint64(opened.size) != size {
		return nil, fmt.Errorf("%w: %d bytes, not %d", ErrChanged, opened.size, size)
	}
	b, err := mapFile(f, path, int(opened.size))
	if err != nil {
		return &backing{r: f, close: f.Close}, nil
	}
	f.Close() // nothing was written, so nothing can be lost
	return b, nil
}
