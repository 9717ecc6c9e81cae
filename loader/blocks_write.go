package loader

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// writeBlocks writes all elements to w.
func (t Tensor) writeBlocks(w io.Writer) error {
	raw := t.desc.Raw
	if raw == 0 {
		return t.blocks().Empty()
	}
	sc := takeScratch()
	defer sc.give()
	for off := uint64(0); off < raw; {
		// To the end each time: then a file that is not mapped is read in large pieces.
		s, err := t.stretch(sc, off/lz4block.Size, lz4block.Count(raw))
		if err != nil {
			return err
		}
		if err := s.write(sc, w); err != nil {
			return err
		}
		off = min(raw, s.hi*lz4block.Size)
	}
	return nil
}

// write writes what the blocks yield to w, decompressed on all cores where they are worth it.
func (s *stretch) write(sc *scratch, w io.Writer) error {
	if !s.large() {
		for i := s.lo; i < s.hi; i++ {
			b, err := s.block(sc, i)
			if err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	}
	begin, end := s.lo*lz4block.Size, min(s.tensor.desc.Raw, s.hi*lz4block.Size)
	return writeInOrder(w, piecesOf(end-begin), func(sc *scratch, piece []byte, i uint64) (int, error) {
		off := begin + i*copyBytes
		b := piece[:min(copyBytes, end-off)]
		return len(b), s.copy(sc, b, off)
	})
}

// piecesOf is how many pieces n bytes are.
func piecesOf(n uint64) uint64 { return (n + copyBytes - 1) / copyBytes }

// copyBlocks writes the blocks as they are stored in a file that is not mapped to w.
func (t Tensor) copyBlocks(w io.Writer) error {
	table := t.blocks()
	sc := takeScratch()
	defer sc.give()
	sc.tensor = nil // for every stretch to have its bytes
	for lo := uint64(0); lo < table.Count(); {
		s, err := t.stretch(sc, lo, table.Count())
		if err != nil {
			return err
		}
		_, size := table.Span(lo, s.hi)
		if _, err := w.Write(s.stored[:size]); err != nil {
			return err
		}
		lo = s.hi
	}
	return table.Empty()
}

// pieces are *[copyBytes]byte: memory for what has been decompressed and not been written.
var pieces = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// piecesPerCore is how far the cores may be ahead of what is written: enough for them to have
// work while a write takes its time, and few enough for the pieces to stay in their caches.
const piecesPerCore = 4

// mostCores is how many produce pieces: more than any writer keeps up with, and few enough for
// what waits to be written to take 16 MiB at most.
const mostCores = 16

// writeInOrder has the cores produce pieces 0 to n-1, and writes one after the other to w from
// the caller's goroutine meanwhile. The first error in that order ends it.
func writeInOrder(w io.Writer, n uint64, produce func(sc *scratch, piece []byte, i uint64) (int, error)) error {
	type product struct {
		piece *[copyBytes]byte
		n     int
		err   error
	}
	cores := min(uint64(runtime.GOMAXPROCS(0)), mostCores, n)
	slots := min(cores*piecesPerCore, n)
	ring := make([]chan product, slots) // piece i comes through ring[i%slots]
	leave := make(chan struct{}, slots) // to produce one more
	for i := range ring {
		ring[i] = make(chan product, 1)
		leave <- struct{}{}
	}
	var next atomic.Uint64
	failed := make(chan struct{}) // by a panic
	g := parallel.Group{Stop: func() { close(failed) }}
	for range cores {
		g.Go(func() error {
			sc := takeScratch()
			defer sc.give()
			for range leave {
				i := next.Add(1) - 1
				if i >= n {
					return nil
				}
				p := product{piece: pieces.Get().(*[copyBytes]byte)}
				p.err = mmapio.Guard(func() (err error) {
					p.n, err = produce(sc, p.piece[:], i)
					return err
				})
				ring[i%slots] <- p
			}
			return nil
		})
	}
	defer g.Wait() // nobody reads the file once this is over, however it ends
	defer close(leave)
	defer next.Store(n)
	for i := range n {
		var p product
		select {
		case p = <-ring[i%slots]:
		case <-failed:
			return nil // Wait panics
		}
		if p.err != nil {
			return p.err
		}
		if _, err := w.Write(p.piece[:p.n]); err != nil {
			return err
		}
		pieces.Put(p.piece)
		leave <- struct{}{}
	}
	return nil
}
