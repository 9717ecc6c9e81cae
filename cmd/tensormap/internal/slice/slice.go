// Package slice writes tensors and slices of them, as dump does.
package slice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// extent is what a slice takes of one dimension.
type extent struct {
	loader.Range
	single bool // one index, whose dimension the result does not have
}

// Region is a region of a tensor: what a slice takes of every dimension.
type Region struct {
	Tensor  loader.Tensor
	extents []extent
	Whole   bool // all of a tensor: raw is possible for every dtype
	Width   int  // of the screen that it is shown on; 0 for any
}

// All returns all of a tensor as a region.
func All(t loader.Tensor) *Region {
	r := &Region{Tensor: t, Whole: true}
	for _, dim := range t.Shape() {
		r.extents = append(r.extents, extent{Range: loader.Range{N: dim}})
	}
	return r
}

// Cut splits "name[0:4, :8]" into the name and the text between the brackets. ok is false without brackets at the end.
func Cut(s string) (name, spec string, ok bool) {
	body, ok := strings.CutSuffix(s, "]")
	at := strings.LastIndexByte(body, '[')
	if !ok || at < 0 {
		return s, "", false
	}
	return body[:at], body[at+1:], true
}

// New reads spec, the inside of brackets, as NumPy does: an item for each dimension, outermost
// first. An item is an index, or start:stop with either left out. One "..." stands for as many
// dimensions as the others leave. Numbers from a dimension's end are negative. A start or stop
// outside of the dimension means its end, an index outside is an error. Dimensions that are not
// mentioned are taken whole. There are no steps: the elements between would be read all the same.
func New(t loader.Tensor, spec string) (*Region, error) {
	shape := t.Shape()
	items, err := splitItems(spec, len(shape))
	if err != nil {
		return nil, fmt.Errorf("%s[%s]: %w", t.Name(), spec, err)
	}
	r := &Region{Tensor: t}
	for d, item := range items {
		e, err := parseItem(item, shape[d])
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: dimension %d of %s: %w", t.Name(), spec, d, report.Counted(shape[d], "element"), err)
		}
		r.extents = append(r.extents, e)
	}
	return r, nil
}

// splitItems returns the items of spec, which commas separate: one for each of rank dimensions. Dimensions without an item get ":"; they
// stand where spec has "...", or else at the end. It fails if there are more items than dimensions, or two "...".
func splitItems(spec string, rank int) (items []string, err error) {
	for item := range strings.SplitSeq(spec, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	if last := len(items) - 1; items[last] == "" {
		items = items[:last] // a comma may end the list
	}
	at := slices.Index(items, "...")
	if at < 0 {
		at, items = len(items), append(items, "...")
	}
	n := len(items) - 1
	switch {
	case slices.Contains(items[at+1:], "..."):
		return nil, errors.New(`more than one "..."`)
	case n > rank:
		return nil, fmt.Errorf("%s for a tensor of %s", report.Counted(n, "item"), report.Counted(rank, "dimension"))
	}
	return slices.Replace(items, at, at+1, slices.Repeat([]string{":"}, rank-n)...), nil
}

// parseItem parses an index or start:stop for a dimension of dim elements. It fails for other text, and for an index outside of dim.
func parseItem(item string, dim int) (extent, error) {
	from, to, ranged := strings.Cut(item, ":")
	if strings.Contains(to, ":") {
		return extent{}, fmt.Errorf("%q has a step, which dump does not know", item)
	}
	if !ranged {
		i, err := parseIndex(item, dim)
		if err == nil && (i < 0 || i >= dim) {
			err = fmt.Errorf("no index %s", item)
		}
		return extent{loader.Range{First: i, N: 1}, true}, err
	}
	start, err := parseIndex(cmp.Or(strings.TrimSpace(from), "0"), dim)
	stop, err2 := parseIndex(cmp.Or(strings.TrimSpace(to), strconv.Itoa(dim)), dim)
	start = min(max(start, 0), dim)
	stop = min(max(stop, start), dim)
	return extent{Range: loader.Range{First: start, N: stop - start}}, cmp.Or(err, err2)
}

// parseIndex parses an index, and adds dim to a negative one. The index may be outside of dim. It fails if s is no number.
func parseIndex(s string, dim int) (int, error) {
	i, err := strconv.Atoi(s)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, fmt.Errorf("%q is neither a number nor start:stop", s)
	}
	if i < 0 { // a number that does not fit is far outside on either side, where Atoi puts it
		i += dim
	}
	return i, nil
}

// shape returns the shape of the result.
func (r *Region) shape() (shape []int) {
	for _, e := range r.extents {
		if !e.single {
			shape = append(shape, e.N)
		}
	}
	return shape
}

// eachRegion calls visit with regions of at most dumpStep elements, which together are the region of ranges in row-major order. It calls
// visit never if that is empty, and stops at the first error. It changes ranges, and restores them unless visit fails.
func (r *Region) eachRegion(ranges []loader.Range, visit func(loader.Slice) error) error {
	elements, d := 1, 0 // the outermost dimension that can be divided, or behind all
	for ; d < len(ranges) && ranges[d].N == 1; d++ {
	}
	for _, one := range ranges[d:] {
		elements *= one.N // at most the tensor's
	}
	if elements == 0 {
		return nil
	}
	const maxDims = 8 // of a loader.Slice
	if tooMany := len(ranges)-d > maxDims; elements > dumpStep || tooMany {
		all, step := ranges[d], 1
		if !tooMany {
			step = max(1, dumpStep/(elements/all.N))
		}
		for first := 0; first < all.N; first += step {
			ranges[d] = loader.Range{First: all.First + first, N: min(step, all.N-first)}
			if err := r.eachRegion(ranges, visit); err != nil {
				return err
			}
		}
		ranges[d] = all
		return nil
	}
	s, err := r.Tensor.Slice(ranges...)
	if err == nil {
		err = visit(s)
	}
	return err
}

// eachValues calls visit with the values of the region in row-major order, at most dumpStep at a time, in one buffer. It fails if a read or
// visit does.
func (r *Region) eachValues(visit func([]float32) error) error {
	count := func(s loader.Slice) (uint64, error) { return s.Elements(), nil }
	return each(r, count, loader.Slice.Dequantize, visit)
}

// eachElements does what eachValues does with the elements as they are stored. The caller has called checkRaw.
func (r *Region) eachElements(visit func([]byte) error) error {
	return each(r, loader.Slice.RawBytes, loader.Slice.Bytes, visit)
}

// each calls visit with what read reads of each region of r: count elements or bytes.
func each[T any](r *Region, count func(loader.Slice) (uint64, error), read func(loader.Slice, []T) error, visit func([]T) error) error {
	var buf []T
	ranges := make([]loader.Range, len(r.extents))
	for d, e := range r.extents {
		ranges[d] = e.Range
	}
	return r.eachRegion(ranges, func(s loader.Slice) error {
		n, err := count(s)
		if err != nil {
			return err
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if err := read(s, buf); err != nil {
			return err
		}
		return visit(buf)
	})
}

// checkRaw returns why the elements of a slice cannot be written as they are stored, or nil.
func (r *Region) checkRaw() error {
	if r.Tensor.Scheme() != nil {
		_, err := r.Tensor.Bytes() // which names the parts
		return err
	}
	if d := r.Tensor.DType(); d.Quantized() || d.BlockElems() != 1 {
		return fmt.Errorf("tensor %q: %s packs elements together, of which raw is all or nothing: use --as f32", r.Tensor.Name(), d)
	}
	return nil
}
