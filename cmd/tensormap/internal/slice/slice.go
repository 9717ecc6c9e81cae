// Package slice writes tensors and slices of them, as dump does.
package slice

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
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
	Width   int // of the screen that it is shown on; 0 for any
}

// Whole returns all of a tensor as a part.
func Whole(t loader.Tensor) *Part {
	p := &Part{t: t}
	for _, dim := range t.Shape() {
		p.extents = append(p.extents, extent{n: uint64(dim)})
	}
	return p
}

// Cut splits "name[0:4, :8]" into the name and what is between the last brackets.
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
	items, err := spread(splitItems(spec), len(shape))
	if err != nil {
		return nil, fmt.Errorf("%s[%s]: %w", t.Name(), spec, err)
	}
	p := &Part{t: t}
	for d, item := range items {
		e, err := newExtent(item, uint64(shape[d]))
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: dimension %d of %s: %w", t.Name(), spec, d, report.Counted(uint64(shape[d]), "element"), err)
		}
		p.extents = append(p.extents, e)
	}
	return p, nil
}

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

// spread makes items one a dimension: "..." stands for those that are not mentioned, and is
// understood at the end.
func spread(items []string, rank int) (list []string, err error) {
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

func newExtent(item string, dim uint64) (extent, error) {
	from, to, ranged := strings.Cut(item, ":")
	if strings.Contains(to, ":") {
		return extent{}, fmt.Errorf("%q has a step, which dump does not know", item)
	}
	if !ranged {
		i, err := position(item, dim)
		if err != nil {
			return extent{}, err
		}
		if i < 0 || uint64(i) >= dim {
			return extent{}, fmt.Errorf("no index %s", item)
		}
		return extent{start: uint64(i), n: 1, single: true}, nil
	}
	start, err := bound(from, 0, dim)
	if err != nil {
		return extent{}, err
	}
	stop, err := bound(to, dim, dim)
	if err != nil {
		return extent{}, err
	}
	return extent{start: start, n: max(stop, start) - start}, nil
}

// bound reads one side of a range, and moves it into the dimension.
func bound(s string, missing, dim uint64) (uint64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return missing, nil
	}
	i, err := position(s, dim)
	if err != nil {
		return 0, err
	}
	return min(uint64(max(i, 0)), dim), nil
}

// position reads an index. A negative one counts from the end; it may be negative still.
func position(s string, dim uint64) (int64, error) {
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

// stretch is consecutive elements.
type stretch struct{ first, n uint64 }

// stretches visits the part's elements in row-major order, in as few stretches as they make.
func (p *Part) stretches(visit func(stretch) error) error {
	shape := p.t.Shape()
	n, outer := uint64(1), len(shape)
	for outer > 0 {
		outer--
		n *= p.extents[outer].n // no more than the tensor has
		if p.extents[outer].n < uint64(shape[outer]) {
			break
		}
	}
	if n == 0 {
		return nil
	}
	for _, e := range p.extents[:outer] {
		if e.n == 0 {
			return nil
		}
	}
	index := make([]uint64, outer)
	for {
		if err := visit(stretch{p.first(index), n}); err != nil {
			return err
		}
		if !p.next(index) {
			return nil
		}
	}
}

// first returns the element where the part begins, index further in the outer dimensions.
func (p *Part) first(index []uint64) (at uint64) {
	for d, dim := range p.t.Shape() {
		i := p.extents[d].start
		if d < len(index) {
			i += index[d]
		}
		at = at*uint64(dim) + i
	}
	return at
}

// next counts index up, the last dimension first; false is the end.
func (p *Part) next(index []uint64) bool {
	for d := len(index) - 1; d >= 0; d-- {
		if index[d]++; index[d] < p.extents[d].n {
			return true
		}
		index[d] = 0
	}
	return false
}

// reach is the largest number of elements between two stretches that are read, not left out.
// About as many fill a page of memory, which comes as a whole anyway. So a compressed block that
// holds many stretches is expanded once.
const reach = 2048

// batches calls visit for the part's elements in order, as many as one read covers: read is
// what to read, and wanted are the stretches of it. There are at most most elements in a batch.
func (p *Part) batches(most uint64, visit func(read stretch, wanted []stretch) error) error {
	var read stretch
	var wanted []stretch
	flush := func() (err error) {
		if len(wanted) > 0 {
			err = visit(read, wanted)
		}
		wanted = wanted[:0]
		return err
	}
	err := p.stretches(func(r stretch) error {
		for r.n > 0 {
			piece := stretch{r.first, min(r.n, most)}
			end := piece.first + piece.n
			if len(wanted) > 0 && (piece.first-(read.first+read.n) > reach || end-read.first > most) {
				if err := flush(); err != nil {
					return err
				}
			}
			if len(wanted) == 0 {
				read.first = piece.first
			}
			read.n = end - read.first
			wanted = append(wanted, piece)
			r = stretch{end, r.n - piece.n}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// values visits the part's values in row-major order, a step at a time, in one buffer.
func (p *Part) values(visit func([]float32) error) error {
	buf := make([]float32, 0)
	return p.batches(dumpStep, func(read stretch, wanted []stretch) error {
		buf = grown(buf, read.n)
		if err := p.t.DequantizeRange(buf, read.first); err != nil {
			return err
		}
		return each(buf, 1, read, wanted, visit)
	})
}

// elements visits the part's elements as they are stored; see plain.
func (p *Part) elements(visit func([]byte) error) error {
	size := uint64(p.t.DType().BlockBytes())
	buf := make([]byte, 0)
	return p.batches(dumpStep, func(read stretch, wanted []stretch) error {
		buf = grown(buf, read.n*size)
		if n, err := p.t.ReadAt(buf, int64(read.first*size)); n < len(buf) {
			return err
		}
		return each(buf, size, read, wanted, visit)
	})
}

func grown[T any](buf []T, n uint64) []T {
	if uint64(cap(buf)) < n {
		return make([]T, n)
	}
	return buf[:n]
}

// each visits the wanted stretches of what was read, size slice elements to an element. Small ones
// are moved together first, for the visitor's sake.
func each[T any](buf []T, size uint64, read stretch, wanted []stretch, visit func([]T) error) error {
	at := uint64(0)
	for _, r := range wanted {
		from := (r.first - read.first) * size
		at += uint64(copy(buf[at:], buf[from:from+r.n*size]))
	}
	return visit(buf[:at])
}

// plain says why a part's elements cannot be taken out as they are stored, where that is so.
func (p *Part) plain() error {
	if p.t.Scheme() != nil {
		_, err := p.t.Bytes() // which names the parts
		return err
	}
	if d := p.t.DType(); d.Quantized() || d.BlockElems() != 1 {
		return fmt.Errorf("tensor %q: %s packs elements together, of which raw is all or nothing: use --as f32", p.t.Name(), d)
	}
	return nil
}

func partRaw(w io.Writer, p *Part) error {
	if err := p.plain(); err != nil {
		return err
	}
	return p.elements(func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
}

func partNumPy(w io.Writer, p *Part) error {
	descr, ok := NpyTypes[p.t.DType()]
	if !ok {
		return p.writeFloat32(w, NumPyHeader(npyFloat32, p.shape()))
	}
	if _, err := w.Write(NumPyHeader(descr, p.shape())); err != nil {
		return err
	}
	return partRaw(w, p)
}

func partFloat32(w io.Writer, p *Part) error { return p.writeFloat32(w, nil) }

// writeFloat32 writes header and values; nothing at all where the tensor has no values.
func (p *Part) writeFloat32(w io.Writer, header []byte) error {
	if err := p.t.DequantizeRange(nil, 0); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	return p.values(func(values []float32) error {
		_, err := w.Write(mmapio.Bytes(values))
		return err
	})
}
