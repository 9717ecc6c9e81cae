package survey

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Pair compares the tensors of one name in two models.
type Pair struct {
	Name string
	A, B *loader.Tensor // nil if there is none
	Err  error          // why they could not be compared: one is damaged

	// SameShape means that the shapes are the same but for dimensions of 1, which some formats
	// add or drop. Other tensors are not compared.
	SameShape bool
	// SameElements means that type, scale and stored elements, decompressed, are the same. Of logical
	// tensors it means scheme and parts. All values are then the same too, if there are any.
	SameElements bool
	// Compared means that the following is known: the elements are the same, or both have
	// values. A NaN is equal to a NaN whatever its bits, the two zeros are equal, and an
	// infinity is equal to itself.
	Compared bool
	// Differing counts the values that are not equal.
	Differing uint64
	// Unmatched counts those among them whose difference is no number: one is NaN or infinite,
	// or they are different infinities. They have no part in the following.
	Unmatched   uint64
	UnmatchedAt uint64 // the first of them, as a row-major number
	// MaxAbs is the largest |a−b|, and MaxAbsAt the first element that has it.
	MaxAbs   float64
	MaxAbsAt uint64
	// MaxRel is the largest |a−b| / max(|a|, |b|), and MaxRelAt the first element that has it.
	MaxRel   float64
	MaxRelAt uint64
	// RMSE is the root of the mean of (a−b)².
	RMSE float64
	// Cosine is the cosine of the angle between the tensors as vectors. It is 1 if no value differs,
	// and NaN if one tensor is all zeros, or has squares that are no float64s.
	Cosine float64

	// isRounded means that the values were rounded to float64: equal results do not prove equal elements.
	isRounded bool
}

// Identical reports whether nothing differs: type, scale, shape, and every bit.
func (p *Pair) Identical() bool {
	return p.SameElements && slices.Equal(p.A.Shape(), p.B.Shape())
}

// Within reports whether no value differs by more than tolerance, whatever types they are
// stored in, in tensors of the same shape.
func (p *Pair) Within(tolerance float64) bool {
	return p.Compared && p.Unmatched == 0 && p.MaxAbs <= tolerance && !p.isRounded
}

// Compare compares the tensors of two models by name, and hands the results to each: in the order
// of a, then those that only b has. Tensors that are stored alike are compared as bytes, and
// expanded only if these differ. Errors, memory, workers and calls of each are as for [Stats].
// a may be b.
func Compare(ctx context.Context, a, b *loader.Model, opts *Options, each func(*Pair) error) error {
	if opts == nil {
		opts = &Options{}
	}
	return run(ctx, opts, each, func(yield func(uint64, task[Pair]) bool) {
		number := uint64(0)
		for p := range pairs(a, b, opts) {
			if !yield(number, &compareTask{models: [2]*loader.Model{a, b}, pair: p}) {
				return
			}
			number++
		}
	}, a, b)
}

// pairs yields the selected tensors of a, each with its namesake in b, then those that only b has.
func pairs(a, b *loader.Model, opts *Options) iter.Seq[*Pair] {
	return func(yield func(*Pair) bool) {
		for ta := range opts.tensors(a) {
			p := &Pair{Name: ta.Name(), A: &ta}
			if tb, err := b.Tensor(p.Name); err == nil {
				p.B = &tb
				p.SameShape = slices.Equal(squeezed(ta.Shape()), squeezed(tb.Shape()))
			}
			if !yield(p) {
				return
			}
		}
		for tb := range opts.tensors(b) {
			if _, err := a.Tensor(tb.Name()); err != nil && !yield(&Pair{Name: tb.Name(), B: &tb}) {
				return
			}
		}
	}
}

// compareTask compares two tensors: as bytes if they may be the same, then by value.
type compareTask struct {
	models [2]*loader.Model
	pair   *Pair
	a, b   subject
	phase  int
	differ atomic.Bool // some bytes differ

	parts    sequence[distance]
	distance distance
}

// weight returns the stored bytes of both tensors, or 0 if their shapes differ: they are not compared then.
func (t *compareTask) weight() uint64 {
	if !t.pair.SameShape {
		return 0
	}
	return t.pair.A.RawBytes() + t.pair.B.RawBytes()
}

// begin begins the next of two phases, and returns the number of its parts, or 0 after the last. The first compares
// stored bytes, if equal elements have equal bytes. The second compares values, unless all bytes were equal. A phase
// without parts it skips.
func (t *compareTask) begin(ctx context.Context) uint64 {
	p := t.pair
	t.phase++
	switch t.phase {
	case 1:
		if !p.SameShape {
			return 0
		}
		var errA, errB error
		t.a, errA = newSubject(ctx, t.models[0], *p.A)
		t.b, errB = newSubject(ctx, t.models[1], *p.B)
		if p.Err = cmp.Or(errA, errB); p.Err != nil {
			return 0
		}
		if !t.alike() { // bytes prove nothing: compare values
			t.differ.Store(true)
			return t.begin(ctx)
		}
		if n := parts(t.a.RawBytes()); n > 0 {
			return n
		}
		return t.begin(ctx) // there are no bytes
	case 2:
		if !t.differ.Load() {
			p.SameElements, p.Compared, p.Cosine = true, true, 1
			return 0
		}
		if p.Compared = checkValues(*p.A) == nil && checkValues(*p.B) == nil; p.Compared {
			return parts(t.a.Elements())
		}
	}
	return 0
}

// alike reports whether the two tensors have the same type, scale and parts, so that equal bytes mean equal elements.
func (t *compareTask) alike() bool {
	return t.a.DType() == t.b.DType() && t.a.hasScale == t.b.hasScale && t.a.quant == t.b.quant && sameParts(&t.a, &t.b)
}

// sameParts reports whether two logical tensors have the same scheme, and stored tensors of the same names, types and
// shapes. It reports true if neither is logical, and false if one is.
func sameParts(a, b *subject) bool {
	if a.parts == nil || b.parts == nil {
		return len(a.parts) == len(b.parts) // neither is logical
	}
	return *a.Scheme() == *b.Scheme() && slices.EqualFunc(a.parts, b.parts, func(a, b loader.Tensor) bool {
		return a.Name() == b.Name() && inBytes(a.DType()) == inBytes(b.DType()) && slices.Equal(squeezed(a.Shape()), squeezed(b.Shape()))
	})
}

// inBytes returns U8 for F8_E8M0, which formats without that type store as U8, and every other type as it is.
func inBytes(d layout.DType) layout.DType {
	if d == layout.F8_E8M0 {
		return layout.U8
	}
	return d
}

// do compares one part of the current phase: bytes in the first, values in the second.
func (t *compareTask) do(w *worker, part uint64) error {
	if t.phase == 1 {
		return t.compareBytes(w, part)
	}
	var d distance
	err := t.compareValues(w, part, &d)
	t.parts.add(part, d, t.distance.merge)
	return err
}

// compareBytes compares the stored bytes of part p, the p-th partElements bytes, and sets t.differ if some differ. It
// stops once t.differ is set, by another worker too.
func (t *compareTask) compareBytes(w *worker, p uint64) error {
	end := min((p+1)*partElements, t.a.RawBytes())
	for off := p * partElements; off < end && !t.differ.Load(); off += hashStep {
		n := min(hashStep, end-off)
		a, err := w.a.elements(&t.a, off, n)
		if err != nil {
			return err
		}
		b, err := w.b.elements(&t.b, off, n)
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			t.differ.Store(true)
		}
		if err := w.progress(2 * n); err != nil {
			return err
		}
	}
	return nil
}

// compareValues adds to d the distances of the values of part p, the p-th partElements elements. It compares float64s
// if float32 would round the values of one tensor.
func (t *compareTask) compareValues(w *worker, p uint64, d *distance) error {
	for first, n := range chunks(p, t.a.Elements()) {
		var err error
		if t.a.isWide || t.b.isWide {
			err = comparison(d, first, n, &t.a, &t.b, w.a.values64, w.b.values64)
		} else {
			err = comparison(d, first, n, &t.a, &t.b, w.a.values32, w.b.values32)
		}
		if err != nil {
			return err
		}
		if err := w.progress(t.a.bytesOf(n) + t.b.bytesOf(n)); err != nil {
			return err
		}
	}
	return nil
}

// comparison reads n values of a and of b from element first on, by readA and readB, and adds their distances to d.
func comparison[T float](d *distance, first, n uint64, a, b *subject, readA, readB func(s *subject, first, n uint64) ([]T, error)) error {
	va, err := readA(a, first, n)
	if err != nil {
		return err
	}
	vb, err := readB(b, first, n)
	if err != nil {
		return err
	}
	compare(d, va, vb, first)
	return nil
}

// end releases both tensors, and returns the result of the comparison, or err in it if a part failed.
func (t *compareTask) end(err error) (*Pair, error) {
	t.a.release()
	t.b.release()
	p := t.pair
	if p.Err = cmp.Or(p.Err, err); p.Err != nil {
		p.Compared = false
	}
	if !p.Compared || p.SameElements {
		return p, nil
	}
	d := &t.distance
	p.Differing, p.Unmatched, p.UnmatchedAt = d.differing, d.unmatched, d.unmatchedAt
	p.MaxAbs, p.MaxAbsAt, p.MaxRel, p.MaxRelAt = d.abs, d.absAt, d.rel, d.relAt
	p.RMSE, p.Cosine = d.rmse(), d.cosine()
	// Equal bytes were not found, yet all values are equal: rounding has hidden the difference.
	p.isRounded = p.Differing == 0 && t.alike() && (t.a.DType() == layout.I64 || t.a.DType() == layout.U64) && t.a.isWide
	return p, nil
}
