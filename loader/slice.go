package loader

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Range is N consecutive positions of a dimension, from First on.
type Range struct{ First, N int }

// All returns the range of all positions.
func All() Range { return Range{0, -1} }

// Slice is a region of a tensor: a range of positions of each dimension. Its methods do for the region what methods of
// Tensor do for all of it: they fill the caller's memory, and allocate nothing if the tensor's file is mapped.
//
// From a source, runs of the region with at most 256 KiB between them come by one request, and several
// requests run at once.
type Slice struct {
	tensor    Tensor
	axes      [maxAxes]axis
	axisCount int    // of axes
	size      uint64 // elements
}

// axis is neighbouring dimensions as one. The region has n of its size positions. Those of the last
// axis are next to each other.
type axis struct{ size, first, count uint64 }

// maxAxes bounds the dimensions that are left: a whole one is joined with the one before it, and a single
// position with the dimension behind it.
const maxAxes = 8

// Slice returns the region of the tensor that has these positions of its dimensions, the outermost
// first. Dimensions without a range are whole. Positions that the tensor does not have are ErrRange.
// A rank of a tensor-parallel model takes its rows with one range, or its columns with All and
// another.
func (t Tensor) Slice(ranges ...Range) (Slice, error) {
	s, err := sliceOf(t, ranges)
	return s, t.wrap(err)
}

// sliceOf returns the region of t that has these ranges of its dimensions. It joins neighbouring dimensions where it can. It
// fails with ErrRange for positions that t does not have, and with ErrUnsupported if more than maxAxes dimensions are left.
func sliceOf(t Tensor, ranges []Range) (Slice, error) {
	s := Slice{tensor: t, size: 1}
	if len(ranges) > len(t.Shape()) {
		return s, fmt.Errorf("%w: %d ranges, but the tensor has %d dimensions", ErrRange, len(ranges), len(t.Shape()))
	}
	for i, dim := range t.Shape() {
		r := Range{0, dim}
		if i < len(ranges) && ranges[i] != All() {
			r = ranges[i]
		}
		if r.First < 0 || r.N < 0 || r.First > dim || r.N > dim-r.First {
			return s, fmt.Errorf("%w: %d positions from %d of dimension %d, which has %d", ErrRange, r.N, r.First, i, dim)
		}
		size, first, n := uint64(dim), uint64(r.First), uint64(r.N)
		s.size *= n // at most the tensor's elements
		switch {
		case s.axisCount > 0 && (n == size || s.axes[s.axisCount-1].count == 1):
			last := &s.axes[s.axisCount-1]
			*last = axis{last.size * size, last.first*size + first, last.count * n}
		case s.axisCount == maxAxes:
			return s, fmt.Errorf("%w: a region of more than %d dimensions", ErrUnsupported, maxAxes)
		default:
			s.axes[s.axisCount] = axis{size, first, n}
			s.axisCount++
		}
	}
	if s.axisCount == 0 { // a scalar
		s.axes[0], s.axisCount = axis{1, 0, 1}, 1
	}
	return s, nil
}

// Elements returns the number of elements of the region.
func (s Slice) Elements() uint64 { return s.size }

// elementRun is neighbouring elements: n of them, from element first of the tensor on, which are elements regionFirst
// and on of the region.
type elementRun struct{ tensorFirst, regionFirst, count uint64 }

// runWalk goes through the runs of a region in order.
type runWalk struct {
	slice     *Slice
	positions [maxAxes]uint64 // in each axis but the last
	regionAt  uint64
}

// next returns the next run of the region in row-major order, or false after the last. It then steps w.positions like
// a counter whose last digit is the last axis but one.
func (w *runWalk) next() (r elementRun, ok bool) {
	if w.regionAt == w.slice.size {
		return r, false
	}
	last := w.slice.axisCount - 1
	for i, a := range w.slice.axes[:last] {
		r.tensorFirst = (r.tensorFirst + a.first + w.positions[i]) * w.slice.axes[i+1].size
	}
	r.tensorFirst += w.slice.axes[last].first
	r.regionFirst, r.count = w.regionAt, w.slice.axes[last].count
	w.regionAt += r.count
	for i := last - 1; i >= 0; i-- {
		if w.positions[i]++; w.positions[i] < w.slice.axes[i].count {
			break
		}
		w.positions[i] = 0
	}
	return r, true
}

// Dequantize writes the region's values to dst, whose length must be Elements. It fails if dst has another length
// (ErrRange), if the type has no values, or if reading does.
func (s Slice) Dequantize(dst []float32) error {
	return s.tensor.call(context.Background(), 4*s.size, func(ctx context.Context, env content.Env, st *state) error {
		if uint64(len(dst)) != s.size {
			return fmt.Errorf("%w: memory for %d values, but the region has %d", ErrRange, len(dst), s.size)
		}
		if err := st.values.Err(); err != nil {
			return err
		}
		if st.values.Source().Cost().ShortReads() {
			return readRuns(&s, dst, oneValuePerElement, func(dst []float32, from uint64) error { return st.values.Read(ctx, env, dst, from) })
		}
		return st.withPins(s.tensor.model, env, func(env content.Env) error {
			return readGroups(s, dst, oneValuePerElement, func(dst []float32, from uint64) error { return st.values.Read(ctx, env, dst, from) })
		})
	})
}

// RawBytes returns the number of bytes of the region's elements. The error is ErrUnsupported for a
// logical tensor, if a run begins or ends inside a block, or if values depend on the tensor's head.
func (s Slice) RawBytes() (uint64, error) {
	n, err := s.rawBytes()
	return n, s.tensor.wrap(err)
}

// rawBytes returns the number of bytes of the region's elements. It fails with ErrUnsupported if they are no bytes of
// their own: if a run begins or ends inside a block, or the tensor is logical.
func (s Slice) rawBytes() (uint64, error) {
	if s.tensor.isLogical() {
		return 0, s.tensor.state().bytesErr()
	}
	d := s.tensor.DType()
	block := uint64(d.BlockElems())
	if d.HeadBytes() > 0 {
		return 0, fmt.Errorf("%w: a region of %s, whose values depend on the tensor's head", ErrUnsupported, d)
	}
	for i, stride := s.axisCount-1, uint64(1); i >= 0 && block > 1; i-- { // runs lie along the last axis, and the others tell where they begin
		a := s.axes[i]
		if a.first*stride%block != 0 || i == s.axisCount-1 && a.count%block != 0 || i > 0 && a.size*stride%block != 0 {
			return 0, fmt.Errorf("%w: a region that begins or ends inside blocks of %d elements (%s)", ErrUnsupported, block, d)
		}
		stride *= a.size
	}
	return s.size / block * uint64(d.BlockBytes()), nil
}

// Bytes writes the bytes of the region's elements to dst, row by row, as the tensor's DType has them. It fails with ErrRange if the
// length of dst is not RawBytes, as RawBytes does, or if reading does.
func (s Slice) Bytes(dst []byte) error {
	return s.tensor.call(context.Background(), uint64(len(dst)), func(ctx context.Context, env content.Env, st *state) error {
		want, err := s.rawBytes()
		if err := cmp.Or(err, st.bytesErr()); err != nil {
			return err
		}
		if uint64(len(dst)) != want {
			return fmt.Errorf("%w: memory for %d bytes, but the region has %d", ErrRange, len(dst), want)
		}
		if st.values.Source().Cost().ShortReads() {
			return readRuns(&s, dst, s.tensor.DType(), func(dst []byte, from uint64) error { return st.elements.ReadAt(ctx, env, dst, from) })
		}
		return st.withPins(s.tensor.model, env, func(env content.Env) error {
			return readGroups(s, dst, s.tensor.DType(), func(dst []byte, from uint64) error { return st.elements.ReadAt(ctx, env, dst, from) })
		})
	})
}

// oneValuePerElement is the dtype to pass to readRuns and readGroups if dst has one T for each element.
const oneValuePerElement = layout.U8

// readRuns fills dst with the runs of a region, one after the other, each by one call of fill. fill reads from the tensor's T number
// from on. A T is a byte of the tensor's type d, or one value; then d is oneValuePerElement. It fails if fill does.
func readRuns[T any](s *Slice, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	w := runWalk{slice: s}
	for r, ok := w.next(); ok; r, ok = w.next() {
		from, n := d.Span(r.tensorFirst, r.count)
		at, _ := d.Span(r.regionFirst, r.count)
		if err := fill(dst[at:][:n], from); err != nil {
			return err
		}
	}
	return nil
}

// readGroups fills dst with the runs of a region. It reads neighbouring runs by one call of fill, and several groups
// of them at a time. d is as for readRuns. It fails if fill does.
func readGroups[T any](s Slice, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	return parallel.Each(groupsAtOnce, s.groups(), func(groups iter.Seq[runGroup]) error {
		for g := range groups {
			if err := readGroup(g, dst, d, fill); err != nil {
				return err
			}
		}
		return nil
	})
}

// runGroup is runs that are read at once: the next ones of walk, up to element regionEnd of the region.
type runGroup struct {
	walk                     runWalk
	regionEnd                uint64
	tensorFirst, tensorCount uint64 // elements of the tensor from its first to its last one
}

// Runs that are read at once have at most maxGap bytes between them. With these they take at most
// maxGroup bytes, and maxValues elements. A longer run comes by itself.
const (
	maxGap       = 256 << 10
	maxGroup     = 4 << 20
	maxValues    = 2 << 20
	groupsAtOnce = 8 // groups
)

// estimateElements returns an estimate of how many elements of t are in n stored bytes, but at most maxValues.
func estimateElements(t Tensor, n float64) uint64 {
	return uint64(min(n*float64(t.Elements())/float64(max(1, t.desc().Stored)), maxValues))
}

// groups returns a function that returns the next group of the region's runs, and false after the last. A run belongs to the group
// before it if both the gap between them and the group with it are small enough.
func (s *Slice) groups() func() (runGroup, bool) {
	maxGapElements, maxGroupElements := estimateElements(s.tensor, maxGap), estimateElements(s.tensor, maxGroup)
	w := runWalk{slice: s}
	return func() (runGroup, bool) {
		g := runGroup{walk: w}
		r, ok := w.next()
		if !ok {
			return g, false
		}
		g.tensorFirst, g.tensorCount, g.regionEnd = r.tensorFirst, r.count, w.regionAt
		for peek := w; ; w = peek {
			next, ok := peek.next()
			if !ok || next.tensorFirst-(g.tensorFirst+g.tensorCount) > maxGapElements || next.tensorFirst+next.count-g.tensorFirst > maxGroupElements {
				return g, true
			}
			g.tensorCount, g.regionEnd = next.tensorFirst+next.count-g.tensorFirst, peek.regionAt
		}
	}
}

// readGroup fills dst with the runs of g by one call of fill. A single run is read straight into dst. Otherwise it reads
// everything from the first run to the last, gaps included, into memory, and copies each run to dst. fill and d are as for readRuns. It
// fails if fill does.
func readGroup[T any](g runGroup, dst []T, d layout.DType, fill func(dst []T, from uint64) error) error {
	from, n := d.Span(g.tensorFirst, g.tensorCount)
	r, _ := g.walk.next()
	at, _ := d.Span(r.regionFirst, r.count)
	if r.count == g.tensorCount {
		return fill(dst[at:][:n], from)
	}
	group := make([]T, n)
	if err := fill(group, from); err != nil {
		return err
	}
	for {
		off, n := d.Span(r.tensorFirst, r.count)
		at, _ := d.Span(r.regionFirst, r.count)
		copy(dst[at:][:n], group[off-from:])
		if g.walk.regionAt == g.regionEnd {
			return nil
		}
		r, _ = g.walk.next()
	}
}
