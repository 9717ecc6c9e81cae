package loader

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Range is N consecutive positions of a dimension, from First on.
type Range struct{ First, N int }

// All returns the range of all positions of a dimension, however many it has. Its N is -1, which no other range has.
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

// axis is one dimension, or several neighbouring ones joined. The region has count of its size positions, from first on.
// Positions of the last axis are next to each other in the tensor.
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

// sliceOf returns the region of t that has the given ranges of its dimensions, the outermost first. Dimensions without a range are
// whole. It joins a dimension with the axis before it if the region has all of the dimension, or one position of that axis. It fails
// with ErrRange for more ranges than dimensions, and for positions that t does not have. It fails with ErrUnsupported if more than
// maxAxes axes are left.
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
		outer := &s.axes[max(0, s.axisCount-1)]
		switch {
		case s.axisCount > 0 && (n == size || outer.count == 1): // the joined positions follow each other
			*outer = axis{size: outer.size * size, first: outer.first*size + first, count: outer.count * n}
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

// elementRun is count elements that follow each other in the tensor, from tensorFirst on, and in the region, from regionFirst on.
type elementRun struct{ tensorFirst, regionFirst, count uint64 }

// runWalk goes through the runs of a region in order. A run is all of the region's positions on its last axis.
type runWalk struct {
	slice     *Slice
	positions [maxAxes]uint64 // of the next run in each axis but the last, from axis.first on
	regionAt  uint64          // the next run's first element in the region
}

// next returns the next run of the region in row-major order. ok is false after the last run. next also advances w.positions to the run that
// follows: they count like digits, and the last digit is the last axis but one.
func (w *runWalk) next() (r elementRun, ok bool) {
	if w.regionAt == w.slice.size {
		return r, false
	}
	last := w.slice.axisCount - 1
	// The run's first element has, in row-major order, the number ((p0·size1 + p1)·size2 + p2)…, where p are positions.
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
		v := st.values.Current()
		if err := v.Err(); err != nil {
			return err
		}
		if v.Source().Cost().ShortReads() { // reading gaps between runs would only cost
			return readRuns(&s, dst, oneValuePerElement, func(dst []float32, from uint64) error { return v.Read(ctx, env, dst, from) })
		}
		var pins cache.Pins
		defer s.tensor.model.cache.Unpin(&pins)
		pinned := st.envForParts(env, &pins)
		return readGroups(s, dst, oneValuePerElement, func(dst []float32, from uint64) error { return v.Read(ctx, pinned, dst, from) })
	})
}

// RawBytes returns the number of bytes of the region's elements. The error is ErrUnsupported for a
// logical tensor, if a run begins or ends inside a block, or if values depend on the tensor's head.
func (s Slice) RawBytes() (uint64, error) {
	n, err := s.rawBytes()
	return n, s.tensor.wrap(err)
}

// rawBytes returns the number of bytes of the region's elements. It fails with ErrUnsupported for a logical tensor, and for a dtype
// with a head. It also does so if a run begins or ends inside a block: the region then is not whole bytes of the tensor.
func (s Slice) rawBytes() (uint64, error) {
	if s.tensor.isLogical() {
		return 0, s.tensor.checkBytes()
	}
	d := s.tensor.DType()
	block := uint64(d.BlockElems())
	if d.HeadBytes() > 0 {
		return 0, fmt.Errorf("%w: a region of %s, whose values depend on the tensor's head", ErrUnsupported, d)
	}
	last := s.axisCount - 1
	// A run must begin with a block, and be as long as whole blocks. Other runs must begin whole blocks before or after it.
	for i, stride := last, uint64(1); i >= 0; i-- { // stride is the elements from one position of axis i to the next
		a := s.axes[i]
		beginsInside := a.first*stride%block != 0
		endsInside := i == last && a.count%block != 0
		laterBeginInside := i > 0 && a.size*stride%block != 0 // runs at other positions of the axes further out
		if beginsInside || endsInside || laterBeginInside {
			return 0, fmt.Errorf("%w: a region that begins or ends inside blocks of %d elements (%s)", ErrUnsupported, block, d)
		}
		stride *= a.size
	}
	return s.size / block * uint64(d.BlockBytes()), nil
}

// Bytes writes the bytes of the region's elements to dst, in row-major order and as the tensor's DType has them. It fails with ErrRange
// if the length of dst is not RawBytes. It also fails if RawBytes or reading does.
func (s Slice) Bytes(dst []byte) error {
	return s.tensor.call(context.Background(), uint64(len(dst)), func(ctx context.Context, env content.Env, st *state) error {
		want, err := s.rawBytes()
		if err := cmp.Or(err, s.tensor.checkBytes()); err != nil {
			return err
		}
		if uint64(len(dst)) != want {
			return fmt.Errorf("%w: memory for %d bytes, but the region has %d", ErrRange, len(dst), want)
		}
		if st.values.Uncached.Source().Cost().ShortReads() {
			return readRuns(&s, dst, s.tensor.DType(), func(dst []byte, from uint64) error { return content.Read(ctx, env, st.elements, dst, from) })
		}
		var pins cache.Pins
		defer s.tensor.model.cache.Unpin(&pins)
		pinned := st.envForParts(env, &pins)
		return readGroups(s, dst, s.tensor.DType(), func(dst []byte, from uint64) error { return content.Read(ctx, pinned, st.elements, dst, from) })
	})
}

// oneValuePerElement is passed to readRuns and readGroups in place of a dtype if dst has values. ByteRange of U8 returns numbers of elements
// unchanged, since an element of U8 is one byte.
const oneValuePerElement = layout.U8

// readRuns fills dst with the region s, one run after the other. dst is the region's bytes or its values. d is the tensor's dtype if
// dst is bytes, and oneValuePerElement if dst is values. For each run, readRuns calls fill once with the run's part of dst. first is
// where the run begins in the tensor, counted in bytes or values. readRuns fails if fill does.
func readRuns[T any](s *Slice, dst []T, d layout.DType, fill func(dst []T, first uint64) error) error {
	w := runWalk{slice: s}
	for r, ok := w.next(); ok; r, ok = w.next() {
		first, n := d.ByteRange(r.tensorFirst, r.count) // in bytes, or still in elements for oneValuePerElement
		at, _ := d.ByteRange(r.regionFirst, r.count)
		if err := fill(dst[at:][:n], first); err != nil {
			return err
		}
	}
	return nil
}

// readGroups fills dst with the region s: its bytes, as elements of type d, or its values if d is oneValuePerElement. One call of fill reads
// a group of neighbouring runs, gaps included. first is where the group begins in the tensor, counted in bytes or values. readGroups reads
// several groups at a time: fill must allow concurrent calls. readGroups fails if fill does.
func readGroups[T any](s Slice, dst []T, d layout.DType, fill func(dst []T, first uint64) error) error {
	return parallel.ForEach(groupsAtOnce, s.groups(), func(g runGroup) error { return readGroup(g, dst, d, fill) })
}

// runGroup is neighbouring runs that are read at once.
type runGroup struct {
	walk                     runWalk // its next runs are the runs of the group
	regionEnd                uint64  // the region's element behind the last run
	tensorFirst, tensorCount uint64  // elements of the tensor from the first run to the end of the last one, gaps included
}

// Neighbouring runs that are read at once have at most maxGap bytes between them. With these gaps a group takes at most
// maxGroup bytes, and maxValues elements. A longer run is a group by itself.
const (
	maxGap       = 256 << 10
	maxGroup     = 4 << 20
	maxValues    = 2 << 20
	groupsAtOnce = 8 // that are read at a time
)

// estimateElements returns about how many elements n stored bytes of t hold, but at most maxValues. It assumes that every stored byte of t
// holds the same share of the elements.
func estimateElements(t Tensor, n float64) uint64 {
	return uint64(min(n*float64(t.Elements())/float64(max(1, t.desc().Stored)), maxValues))
}

// groups returns a function that returns the next group of the region's runs, and false after the last. Its calls must not overlap in
// time. A run joins the group before it under two conditions: the gap between them has at most maxGap bytes, and the group would have at
// most maxGroup bytes with the run. Bytes are estimated from elements: see estimateElements. Runs ascend in the tensor.
func (s *Slice) groups() func() (runGroup, bool) {
	maxGapElements, maxGroupElements := estimateElements(s.tensor, maxGap), estimateElements(s.tensor, maxGroup)
	w := runWalk{slice: s}
	return func() (runGroup, bool) {
		g := runGroup{walk: w} // a copy, whose next run is the first of the group
		r, ok := w.next()
		if !ok {
			return g, false
		}
		g.tensorFirst, g.tensorCount, g.regionEnd = r.tensorFirst, r.count, w.regionAt
		for peek := w; ; w = peek { // w passes the runs that join the group, so that the next group begins with the one that does not
			next, ok := peek.next()
			if !ok {
				return g, true
			}
			gap := next.tensorFirst - (g.tensorFirst + g.tensorCount)
			joinedCount := (next.tensorFirst + next.count) - g.tensorFirst // elements of the group with the run
			if gap > maxGapElements || joinedCount > maxGroupElements {
				return g, true
			}
			g.tensorCount, g.regionEnd = joinedCount, peek.regionAt
		}
	}
}

// readGroup fills the group's part of dst, which is for the whole region, by one call of fill. It reads a single run straight into dst.
// Otherwise it reads all from the first run to the last into memory, gaps included, and copies each run to dst. A T is a byte of elements
// of type d, or a value if d is oneValuePerElement: so d.ByteRange counts in T. readGroup fails if fill does.
func readGroup[T any](g runGroup, dst []T, d layout.DType, fill func(dst []T, first uint64) error) error {
	first, n := d.ByteRange(g.tensorFirst, g.tensorCount)
	r, _ := g.walk.next()
	at, _ := d.ByteRange(r.regionFirst, r.count)
	if isSingle := r.count == g.tensorCount; isSingle {
		return fill(dst[at:][:n], first)
	}
	group := make([]T, n)
	if err := fill(group, first); err != nil {
		return err
	}
	for {
		off, n := d.ByteRange(r.tensorFirst, r.count)
		at, _ := d.ByteRange(r.regionFirst, r.count)
		copy(dst[at:][:n], group[off-first:])
		if isLast := g.walk.regionAt == g.regionEnd; isLast {
			return nil
		}
		r, _ = g.walk.next()
	}
}
