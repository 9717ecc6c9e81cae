// Package slice writes tensors and slices of them, as dump does.
package slice

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// extent is what a slice takes of one dimension.
type extent struct {
	start, n uint64
	single   bool // one index, whose dimension the result does not have
}

// Part is a rectangular part of a tensor: an extent of every dimension.
type Part struct {
	t       loader.Tensor
	extents []extent
	isWhole bool // all of a tensor: raw is possible for every dtype
	Width   int  // of the screen that it is shown on; 0 for any
}

// Whole returns all of a tensor as a part.
func Whole(t loader.Tensor) *Part {
	p := &Part{t: t, isWhole: true}
	for _, dim := range t.Shape() {
		p.extents = append(p.extents, extent{n: uint64(dim)})
	}
	return p
}

// Cut splits "name[0:4, :8]" into the name and the text between the last brackets. ok is false without brackets at
// the end.
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
func New(t loader.Tensor, spec string) (*Part, error) {
	shape := t.Shape()
	items, err := expandEllipsis(splitItems(spec), len(shape))
	if err != nil {
		return nil, fmt.Errorf("%s[%s]: %w", t.Name(), spec, err)
	}
	p := &Part{t: t}
	for d, item := range items {
		e, err := parseItem(item, uint64(shape[d]))
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: dimension %d of %s: %w", t.Name(), spec, d, report.Counted(uint64(shape[d]), "element"), err)
		}
		p.extents = append(p.extents, e)
	}
	return p, nil
}

// splitItems returns the items of spec, which commas separate.
func splitItems(spec string) (items []string) {
	if strings.TrimSpace(spec) == "" {
		return []string{"..."}
	}
	for item := range strings.SplitSeq(spec, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	if last := len(items) - 1; items[last] == "" && last > 0 {
		items = items[:last] // a comma may end the list
	}
	return items
}

// expandEllipsis returns an item for each of rank dimensions. Dimensions without an item get ":"; they stand where items has "...",
// or else at the end. It fails if there are more items than dimensions, or two "...".
func expandEllipsis(items []string, rank int) (list []string, err error) {
	at := len(items)
	for i, item := range items {
		if item != "..." {
			continue
		}
		if at < len(items) {
			return nil, errors.New(`more than one "..."`)
		}
		at = i
	}
	before, after := items[:at], items[min(at+1, len(items)):]
	if n := len(before) + len(after); n > rank {
		return nil, fmt.Errorf("%s for a tensor of %s", report.Counted(uint64(n), "item"), report.Counted(uint64(rank), "dimension"))
	}
	list = append(list, before...)
	for range rank - len(before) - len(after) {
		list = append(list, ":")
	}
	return append(list, after...), nil
}

// parseItem parses one item of a slice, an index or start:stop, for a dimension of dim elements. It fails if the text is neither, or the
// index is outside of the dimension.
func parseItem(item string, dim uint64) (extent, error) {
	from, to, ranged := strings.Cut(item, ":")
	if strings.Contains(to, ":") {
		return extent{}, fmt.Errorf("%q has a step, which dump does not know", item)
	}
	if !ranged {
		i, err := parseIndex(item, dim)
		if err != nil {
			return extent{}, err
		}
		if i < 0 || uint64(i) >= dim {
			return extent{}, fmt.Errorf("no index %s", item)
		}
		return extent{start: uint64(i), n: 1, single: true}, nil
	}
	start, err := parseBound(from, 0, dim)
	if err != nil {
		return extent{}, err
	}
	stop, err := parseBound(to, dim, dim)
	if err != nil {
		return extent{}, err
	}
	return extent{start: start, n: max(stop, start) - start}, nil
}

// parseBound parses s, the start or stop of a range, and returns it as a number from 0 to dim. If s is empty, it returns missing. It fails
// if s is no number.
func parseBound(s string, missing, dim uint64) (uint64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return missing, nil
	}
	i, err := parseIndex(s, dim)
	if err != nil {
		return 0, err
	}
	return min(uint64(max(i, 0)), dim), nil
}

// parseIndex parses an index, and adds dim to a negative one. The index may be outside of the dimension. It fails if s is
// no number.
func parseIndex(s string, dim uint64) (int64, error) {
	i, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, fmt.Errorf("%q is neither a number nor start:stop", s)
	}
	// A number that does not fit is far outside on either side, where ParseInt puts it.
	if i < 0 {
		i += int64(min(dim, math.MaxInt64))
	}
	return i, nil
}

// shape returns the shape of the result.
func (p *Part) shape() (shape []int) {
	for _, e := range p.extents {
		if !e.single {
			shape = append(shape, int(e.n))
		}
	}
	return shape
}

// eachRegion calls visit with regions of at most dumpStep elements, which together are the part in row-major order. It calls
// visit never if the part is empty, and stops at the first error.
func (p *Part) eachRegion(visit func(loader.Slice) error) error {
	ranges := make([]loader.Range, len(p.extents))
	for d, e := range p.extents {
		if e.n == 0 {
			return nil
		}
		ranges[d] = loader.Range{First: int(e.start), N: int(e.n)}
	}
	const outermost = 0
	return p.eachPiece(ranges, outermost, visit)
}

// eachPiece calls visit with regions that together are the region of ranges in row-major order. Ranges of dimensions before d
// have one position. It divides the region along dimension d. If one position there still has too many elements or dimensions
// for a visit, it divides that along the next dimension. It changes ranges, and restores them unless visit fails.
func (p *Part) eachPiece(ranges []loader.Range, d int, visit func(loader.Slice) error) error {
	if d == len(ranges) { // a scalar, or one element
		s, err := p.t.Slice(ranges...)
		if err == nil {
			err = visit(s)
		}
		return err
	}
	all, inner := ranges[d], 1 // elements of a position, no more than the tensor has
	for _, r := range ranges[d+1:] {
		inner *= r.N
	}
	const maxDims = 8 // of a loader.Slice
	if len(ranges)-d > maxDims {
		inner = dumpStep + 1
	}
	step := max(1, dumpStep/inner)
	for first := 0; first < all.N; first += step {
		ranges[d] = loader.Range{First: all.First + first, N: min(step, all.N-first)}
		next := len(ranges)
		if inner > dumpStep {
			next = d + 1
		}
		if err := p.eachPiece(ranges, next, visit); err != nil {
			return err
		}
	}
	ranges[d] = all
	return nil
}

// eachValues calls visit with the values of the part in row-major order, at most dumpStep at a time, in one buffer. It fails if a read or
// visit does.
func (p *Part) eachValues(visit func([]float32) error) error {
	var buf []float32
	return p.eachRegion(func(s loader.Slice) error {
		buf = slices.Grow(buf[:0], int(s.Elements()))[:s.Elements()]
		if err := s.Dequantize(buf); err != nil {
			return err
		}
		return visit(buf)
	})
}

// eachElements calls visit with the elements of the part as they are stored, at most dumpStep at a time, in one buffer. It fails if a read
// or visit does. The caller has called checkRaw.
func (p *Part) eachElements(visit func([]byte) error) error {
	var buf []byte
	return p.eachRegion(func(s loader.Slice) error {
		n, err := s.RawBytes()
		if err != nil {
			return err
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if err := s.Bytes(buf); err != nil {
			return err
		}
		return visit(buf)
	})
}

// checkRaw returns why the elements of a slice cannot be written as they are stored, or nil.
func (p *Part) checkRaw() error {
	if p.t.Scheme() != nil {
		_, err := p.t.Bytes() // which names the parts
		return err
	}
	if d := p.t.DType(); d.Quantized() || d.BlockElems() != 1 {
		return fmt.Errorf("tensor %q: %s packs elements together, of which raw is all or nothing: use --as f32", p.t.Name(), d)
	}
	return nil
}
