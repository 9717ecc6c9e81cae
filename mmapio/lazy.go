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

// mapNow opens and maps the file, once, and returns its backing. A file that cannot be mapped is read. The caller holds off Close. It fails
// if open does, or the file has another size.
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
	opened, err := openedIdentity(f)
	if err == nil && uint64(opened.size) != m.size {
		err = fmt.Errorf("%w: %d bytes, not %d", ErrChanged, opened.size, m.size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	b, err := mapFile(f, m.path, int(opened.size))
	if err != nil { // Lazy had expected that the file can be mapped
		b = &backing{r: f, close: f.Close}
	} else {
		f.Close() // nothing was written, so nothing can be lost
	}
	m.standOn(b)
	return b, nil
}
