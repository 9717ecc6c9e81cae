package loader

import (
	"context"
	"fmt"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
)

// Range is N consecutive positions of a dimension, from First on.
type Range struct{ First, N int }

// All returns the range of all positions.
func All() Range { return Range{0, -1} }

// Slice is a region of a tensor: a range of positions of each dimension. Its methods are those of its
// tensor, and hold what they promise: they fill the caller's memory, and allocate nothing if the
// tensor's file is mapped.
//
// From a source, runs of the region with at most 256 KiB between them come by one request, and several
// requests run at once.
type Slice struct {
	t    Tensor
	axes [maxAxes]axis
	n    int    // of axes
	size uint64 // elements
}

// axis is neighbouring dimensions as one. The region has n of its size positions. Those of the last
// axis are next to each other.
type axis struct{ size, first, n uint64 }

// maxAxes bounds the dimensions that are left: a whole one is joined with the one before it, and a single
// position with the dimension behind it.
const maxAxes = 8

// Slice returns the region of the tensor that has these positions of its dimensions, the outermost
// first. Dimensions without a range are whole. A rank of a tensor-parallel model takes its rows with
// one range, or its columns with All and another.
func (t Tensor) Slice(ranges ...Range) (Slice, error) {
	s := Slice{t: t, size: 1}
	if len(ranges) > len(t.Shape()) {
		return s, t.wrap(fmt.Errorf("%w: %d ranges, but the tensor has %d dimensions", ErrRange, len(ranges), len(t.Shape())))
	}
	for i, dim := range t.Shape() {
		r := Range{0, dim}
		if i < len(ranges) && ranges[i] != All() {
			r = ranges[i]
		}
		if r.First < 0 || r.N < 0 || r.First > dim || r.N > dim-r.First {
			return s, t.wrap(fmt.Errorf("%w: %d positions from %d of dimension %d, which has %d", ErrRange, r.N, r.First, i, dim))
		}
		size, first, n := uint64(dim), uint64(r.First), uint64(r.N)
		s.size *= n // at most the tensor's elements
		switch {
		case s.n > 0 && (n == size || s.axes[s.n-1].n == 1):
			last := &s.axes[s.n-1]
			*last = axis{last.size * size, last.first*size + first, last.n * n}
		case s.n == maxAxes:
			return s, t.wrap(fmt.Errorf("%w: a region of more than %d dimensions", ErrUnsupported, maxAxes))
		default:
			s.axes[s.n] = axis{size, first, n}
			s.n++
		}
	}
	if s.n == 0 { // a scalar
		s.axes[0], s.n = axis{1, 0, 1}, 1
	}
	return s, nil
}

// Elements returns the number of elements of the region.
func (s Slice) Elements() uint64 { return s.size }

// run is neighbouring elements: n of them, from element first of the tensor on, which are element at
// of the region.
type run struct{ first, at, n uint64 }

// walk goes through the runs of a region in order.
type walk struct {
	s   *Slice
	pos [maxAxes]uint64 // in each axis but the last
	at  uint64
}

// next returns the next run of the region in row-major order. ok is false after the last. It then steps w.pos as a
// counter whose last digit is the last axis but one.
func (w *walk) next() (r run, ok bool) {
	if w.at == w.s.size {
		return r, false
	}
	last := w.s.n - 1
	for i, a := range w.s.axes[:last] {
		r.first = (r.first + a.first + w.pos[i]) * w.s.axes[i+1].size
	}
	r.first += w.s.axes[last].first
	r.at, r.n = w.at, w.s.axes[last].n
	w.at += r.n
	for i := last - 1; i >= 0; i-- {
		if w.pos[i]++; w.pos[i] < w.s.axes[i].n {
			break
		}
		w.pos[i] = 0
	}
	return r, true
}

// Dequantize writes the region's values to dst, whose length must be Elements.
func (s Slice) Dequantize(dst []float32) error {
	if uint64(len(dst)) != s.size {
		return s.t.wrap(fmt.Errorf("%w: memory for %d values, but the region has %d", ErrRange, len(dst), s.size))
	}
	return s.t.call(context.Background(), 4*s.size, func(ctx context.Context, env content.Env, st *state) error {
		if err := st.values.Err(); err != nil {
			return err
		}
		if cheapRuns(st.values) {
			return readRuns(&s, dst, layout.U8, func(dst []float32, from uint64) error { return st.values.Read(ctx, env, dst, from) })
		}
		var own cache.Pins // so that what can only be had as a whole is made once for all runs
		defer s.t.model.cache.Unpin(&own)
		pinned := st.pinned(env, &own)
		return readGroups(s, dst, layout.U8, func(dst []float32, from uint64) error { return st.values.Read(ctx, pinned, dst, from) })
	})
}

// RawBytes returns the number of bytes of the region's elements. It is ErrUnsupported if they are no
// bytes of their own: if a run begins or ends inside a block, or the tensor is stored as several.
func (s Slice) RawBytes() (uint64, error) {
	if s.t.logical() {
		return 0, s.t.wrap(s.t.state().bytesErr())
	}
	d := s.t.DType()
	block := uint64(d.BlockElems())
	if d.HeadBytes() > 0 {
		return 0, s.t.wrap(fmt.Errorf("%w: a region of %s, whose values depend on the tensor's head", ErrUnsupported, d))
	}
	for i, stride := s.n-1, uint64(1); i >= 0 && block > 1; i-- { // the last axis makes runs, the others their beginnings
		a := s.axes[i]
		if a.first*stride%block != 0 || i == s.n-1 && a.n%block != 0 || i > 0 && a.size*stride%block != 0 {
			return 0, s.t.wrap(fmt.Errorf("%w: a region that begins or ends inside blocks of %d elements (%s)", ErrUnsupported, block, d))
		}
		stride *= a.size
	}
	return s.size / block * uint64(d.BlockBytes()), nil
}

// Bytes writes the bytes of the region's elements to dst, whose length must be RawBytes: those of the
// first row, of the next one, and so on, as the tensor's DType has them.
func (s Slice) Bytes(dst []byte) error {
	want, err := s.RawBytes()
	if err != nil {
		return err
	}
	if uint64(len(dst)) != want {
		return s.t.wrap(fmt.Errorf("%w: memory for %d bytes, but the region has %d", ErrRange, len(dst), want))
	}
	return s.t.call(context.Background(), want, func(ctx context.Context, env content.Env, st *state) error {
		if err := st.bytesErr(); err != nil {
			return err
		}
		if cheapRuns(st.values) {
			return readRuns(&s, dst, s.t.DType(), func(dst []byte, from uint64) error { return st.elements.ReadAt(ctx, env, dst, from) })
		}
		var own cache.Pins
		defer s.t.model.cache.Unpin(&own)
		pinned := st.pinned(env, &own)
		return readGroups(s, dst, s.t.DType(), func(dst []byte, from uint64) error { return st.elements.ReadAt(ctx, pinned, dst, from) })
	})
}

// cheapRuns reports whether a few elements can be read for the cost of their own bytes: they are in memory, not
// compressed.
func cheapRuns(v values.Values) bool {
	cost := v.Source().Cost()
	return cost.Piece == 0 && !cost.Waits
}

// readRuns reads the runs of a region into dst, one after the other. d.Span turns elements of the tensor into Ts: for
// bytes d is the tensor's type, for float32 it is U8, so that an element is one T. fill reads
// the Ts from number from on.
func readRuns[T any](s *Slice, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	w := walk{s: s}
	for r, ok := w.next(); ok; r, ok = w.next() {
		from, n := d.Span(r.first, r.n)
		at, _ := d.Span(r.at, r.n)
		if err := fill(dst[at:][:n], from); err != nil {
			return err
		}
	}
	return nil
}

// readGroups does what readRuns does, but reads neighbouring runs at once, and several groups of them at a time.
func readGroups[T any](s Slice, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	return parallel.Each(atOnce, s.groups(), func(groups iter.Seq[group]) error {
		for g := range groups {
			if err := readGroup(g, dst, d, fill); err != nil {
				return err
			}
		}
		return nil
	})
}

// group is runs that are read at once: those of w up to element end of the region.
type group struct {
	w          walk
	end        uint64
	first, all uint64 // elements of the tensor from its first to its last one
}

// Runs that are read at once have at most maxGap bytes between them. With these they take at most
// maxGroup bytes, and maxValues elements. A longer run comes by itself.
const (
	maxGap    = 256 << 10
	maxGroup  = 4 << 20
	maxValues = 2 << 20
	atOnce    = 8 // groups
)

// elementsIn estimates how many elements of the tensor n stored bytes hold. It returns at most maxValues.
func elementsIn(t Tensor, n float64) uint64 {
	return uint64(min(n*float64(t.Elements())/float64(max(1, t.desc().Stored)), maxValues))
}

// groups returns an iterator over the groups of a region's runs; ok is false at the end. A run joins the group before
// it if the gap between them and the whole group are small enough.
func (s *Slice) groups() func() (group, bool) {
	gap, most := elementsIn(s.t, maxGap), elementsIn(s.t, maxGroup)
	w := walk{s: s}
	return func() (group, bool) {
		g := group{w: w}
		r, ok := w.next()
		if !ok {
			return g, false
		}
		g.first, g.all, g.end = r.first, r.n, w.at
		for peek := w; ; w = peek {
			next, ok := peek.next()
			if !ok || next.first-(g.first+g.all) > gap || next.first+next.n-g.first > most {
				return g, true
			}
			g.all, g.end = next.first+next.n-g.first, peek.at
		}
	}
}

// readGroup reads a group into dst. A run alone is read straight into dst. Otherwise all that the group spans, gaps
// included, is read at once, and the runs are copied from there. d and fill are those of readRuns.
func readGroup[T any](g group, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	from, n := d.Span(g.first, g.all)
	r, _ := g.w.next()
	at, _ := d.Span(r.at, r.n)
	if r.n == g.all {
		return fill(dst[at:][:n], from)
	}
	all := make([]T, n)
	if err := fill(all, from); err != nil {
		return err
	}
	for {
		off, n := d.Span(r.first, r.n)
		at, _ := d.Span(r.at, r.n)
		copy(dst[at:][:n], all[off-from:])
		if g.w.at == g.end {
			return nil
		}
		r, _ = g.w.next()
	}
}
