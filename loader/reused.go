package loader

import (
	"context"
	"math/bits"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// reused is a file whose index is read into memory of a pool, for the next file to use again. Slices live until free.
type reused struct {
	*mmapio.Mapping
	memory []byte // its length is what has been handed out
	head   []byte // the file's first bytes, in memory
}

// mostReused is how many bytes of an index are read into memory that is kept.
const mostReused = 1 << 20

var reusedMemory = sync.Pool{New: func() any { return new(reused) }}

// reuse makes the index of a file of this system, if it is copied, go to memory of the pool. The caller calls free when
// nothing needs the slices any more.
func (s *stored) reuse() (free func()) {
	m, ok := s.index.(*mmapio.Mapping)
	if !ok || m.Aliased() || s.reader != nil {
		return func() {}
	}
	r := reusedMemory.Get().(*reused)
	r.Mapping, s.index = m, r
	return func() {
		s.index, r.Mapping, r.memory, r.head = m, nil, r.memory[:0], nil
		reusedMemory.Put(r)
	}
}

// Slice reads the file's first bytes together: formats ask for a few there, one field after the other.
func (r *reused) Slice(off, n uint64) (b []byte, err error) {
	const first = 4 << 10
	if r.head == nil && layout.Within(off, n, min(first, r.Size())) {
		if r.head, err = r.read(0, min(first, r.Size())); err != nil {
			return nil, err
		}
	}
	if layout.Within(off, n, uint64(len(r.head))) {
		return r.head[off:][:n:n], nil
	}
	if n > mostReused || !layout.Within(off, n, r.Size()) {
		return r.Mapping.Slice(off, n)
	}
	return r.read(off, n)
}

// read reads into the memory, or into more.
func (r *reused) read(off, n uint64) ([]byte, error) {
	at := uint64(len(r.memory))
	if at+n > uint64(cap(r.memory)) {
		at, r.memory = 0, make([]byte, 0, 1<<bits.Len64(at+n)) // the next file's head and index fit too
	}
	r.memory = r.memory[:at+n]
	b := r.memory[at:][:n:n]
	return b, mmapio.ReadFull(context.Background(), r.Mapping, b, off)
}
