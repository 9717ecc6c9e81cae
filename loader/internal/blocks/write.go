package blocks

import (
	"io"
	"iter"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/mmapio"
)

// Write writes all elements to w.
func (t Tensor) Write(w io.Writer) error {
	return t.eachPiece(0, t.Count(), func(p *piece, sc *scratch) error { return p.write(sc, w) })
}

// write writes what the blocks yield to w, decompressed on all cores if that pays.
func (p *piece) write(sc *scratch, w io.Writer) error {
	if !p.large() {
		for i := p.lo; i < p.hi; i++ {
			b, err := p.block(sc, i)
			if err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	}
	begin, end := p.lo*lz4block.Size, min(p.table.raw, p.hi*lz4block.Size)
	return parallel.WriteInOrder(w, parallel.Pieces(end-begin), func(jobs iter.Seq[*parallel.Job]) {
		sc := takeScratch()
		defer sc.give()
		for job := range jobs {
			off := begin + job.I*parallel.PieceBytes
			b := job.Into[:min(parallel.PieceBytes, end-off)]
			job.Done(len(b), mmapio.Guard(func() error { return p.copy(sc, b, off) }))
		}
	})
}

// WriteStored writes the blocks as they are stored in a file that is not mapped to w.
func (t Tensor) WriteStored(w io.Writer) error {
	return t.eachPiece(0, t.Count(), func(p *piece, _ *scratch) error {
		_, size := t.Span(p.lo, p.hi)
		_, err := w.Write(p.stored[:size])
		return err
	})
}
