package survey

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
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
	// Unmatched counts those among them whose difference is not finite: one is NaN or infinite, or
	// both are different infinities. The figures below leave them out.
	Unmatched   uint64
	UnmatchedAt uint64 // the first of them, as a row-major number
	// MaxAbs is the largest |a−b|, and MaxAbsAt the first element that has it.
	MaxAbs   float64
	MaxAbsAt uint64
	// MaxRel is the largest |a−b| / max(|a|, |b|), and MaxRelAt the first element that has it.
	MaxRel   float64
	MaxRelAt uint64
	// Errors has the sums over all pairs of finite values. If SameElements is true, the values were not read: Errors.Values
	// counts them all, and the sums are 0.
	Errors

	// isRounded means that the values were rounded to float64: equal results do not prove equal elements.
	isRounded bool
}

// Cosine returns the cosine of the angle between A and B as vectors: 1 if no value differs, else [Errors.Cosine]. It is NaN
// unless p was Compared.
func (p *Pair) Cosine() float64 {
	switch {
	case !p.Compared:
		return math.NaN()
	case p.Differing == 0:
		return 1
	}
	return p.Errors.Cosine()
}

// Identical reports whether nothing differs: SameElements says so of type, scale and stored elements, and the shapes are equal too.
func (p *Pair) Identical() bool {
	return p.SameElements && slices.Equal(p.A.Shape(), p.B.Shape())
}

// Shown returns p as package explore and the command show it. For integers without a scale or scheme, such as ids, sums mean nothing: if a
// tensor has them and values differ, it returns a copy whose sums are NaN. Otherwise it returns p itself.
func (p *Pair) Shown() *Pair {
	if !p.Compared || p.Differing == 0 || isReal(*p.A) && isReal(*p.B) {
		return p
	}
	nan := math.NaN()
	shown := *p
	shown.Errors = Errors{Values: p.Values, AA: nan, BB: nan, AB: nan, DD: nan}
	return &shown
}

// Within reports whether p was Compared and no value differs by more than tolerance. It is false if a NaN or an infinity differs
// from its counterpart, and if float64 rounds 64-bit integers that may differ.
func (p *Pair) Within(tolerance float64) bool {
	return p.Compared && p.Unmatched == 0 && p.MaxAbs <= tolerance && !p.isRounded
}

// Compare compares the tensors of two models by name, and calls each with the results, one call at a time. They come in the order of a,
// then those that only b has. Tensors that are stored alike are compared as bytes, and expanded only if these differ. a may be b, and opts
// nil. A tensor that cannot be read has its error in Pair.Err. Compare fails if a call of each fails, or if ctx ends. It also fails if a
// model is closed or one of its files has changed.
func Compare(ctx context.Context, a, b *loader.Model, opts *Options, each func(*Pair) error) error {
	if opts == nil {
		opts = &Options{}
	}
	return run(ctx, opts, each, func(yield func(task[Pair]) bool) {
		for p := range pairs(a, b, opts) {
			if !yield(&compareTask{models: [2]*loader.Model{a, b}, pair: p}) {
				return
			}
		}
	}, a, b)
}

// pairs yields the tensors of a that opts selects, each with b's tensor of the same name if there is one. Then it yields the selected
// tensors that only b has.
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
	models    [2]*loader.Model
	pair      *Pair
	a, b      leasedTensor
	phase     int
	mayDiffer atomic.Bool // some bytes differ, or bytes prove nothing: the values are compared

	parts    sequence[distance]
	distance distance
}

// progressBytes returns the number of stored bytes of both tensors, or 0 if they are not compared: the shapes differ, or one is missing.
func (t *compareTask) progressBytes() uint64 {
	if !t.pair.SameShape {
		return 0
	}
	return t.pair.A.RawBytes() + t.pair.B.RawBytes()
}

// begin begins the next of two phases. It returns the number of its parts, or 0 if nothing is left to compare. Phase 1 compares stored
// bytes. It is skipped if types, scales or parts differ, since bytes then prove nothing, or if there are no bytes. Phase 2 compares
// values. It is skipped if all bytes were equal, and if a tensor has no values. If a tensor cannot be leased, begin sets the pair's Err,
// and returns 0.
func (t *compareTask) begin(ctx context.Context) uint64 {
	p := t.pair
	t.phase++
	switch t.phase {
	case 1:
		if !p.SameShape {
			return 0
		}
		var errA, errB error
		t.a, errA = leaseTensor(ctx, t.models[0], *p.A)
		t.b, errB = leaseTensor(ctx, t.models[1], *p.B)
		if p.Err = cmp.Or(errA, errB); p.Err != nil {
			return 0
		}
		if t.areBytesComparable() && t.a.RawBytes() > 0 {
			return partCount(t.a.RawBytes())
		}
		t.mayDiffer.Store(!t.areBytesComparable())
		return t.begin(ctx) // phase 2
	case 2:
		if !t.mayDiffer.Load() {
			p.SameElements, p.Compared, p.Values = true, true, p.A.Elements()
			return 0
		}
		if p.Compared = checkValues(*p.A) == nil && checkValues(*p.B) == nil; p.Compared {
			return partCount(t.a.Elements())
		}
	}
	return 0
}

// areBytesComparable reports whether the two tensors have the same type, scale and parts, so that equal bytes mean equal elements.
func (t *compareTask) areBytesComparable() bool {
	return t.a.DType() == t.b.DType() && t.a.hasScale == t.b.hasScale && t.a.quant == t.b.quant && sameParts(&t.a, &t.b)
}

// sameParts reports whether two logical tensors have the same scheme, and parts of the same names, types and shapes. It ignores dimensions
// of 1, and takes F8_E8M0 and U8 for the same type. It reports true if neither tensor is logical, and false if one is.
func sameParts(a, b *leasedTensor) bool {
	if a.parts == nil || b.parts == nil {
		return len(a.parts) == len(b.parts) // neither is logical
	}
	return *a.Scheme() == *b.Scheme() && slices.EqualFunc(a.parts, b.parts, func(a, b loader.Tensor) bool {
		return a.Name() == b.Name() && storedType(a.DType()) == storedType(b.DType()) && slices.Equal(squeezed(a.Shape()), squeezed(b.Shape()))
	})
}

// storedType returns d, but U8 for F8_E8M0: formats without that type store its bytes as U8.
func storedType(d layout.DType) layout.DType {
	if d == layout.F8_E8M0 {
		return layout.U8
	}
	return d
}

// do compares one part: stored bytes in phase 1, values in phase 2. It fails if reading does, or if the work is canceled.
func (t *compareTask) do(w *worker, part uint64) error {
	if t.phase == 1 {
		return t.compareBytes(w, part)
	}
	var d distance
	err := t.compareValues(w, part, &d)
	t.parts.add(part, d, t.distance.merge)
	return err
}

// compareBytes compares part p of the stored bytes of both tensors, which have as many, and sets t.mayDiffer if some differ. It
// stops once another worker has set it. It fails if reading does, or if the work is canceled.
func (t *compareTask) compareBytes(w *worker, p uint64) error {
	end := min((p+1)*partElements, t.a.RawBytes())
	for off := p * partElements; off < end && !t.mayDiffer.Load(); off += hashStep {
		n := min(hashStep, end-off)
		a, err := w.readerA.storedBytes(&t.a, off, n)
		if err != nil {
			return err
		}
		b, err := w.readerB.storedBytes(&t.b, off, n)
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			t.mayDiffer.Store(true)
		}
		if err := w.progress(2 * n); err != nil {
			return err
		}
	}
	return nil
}

// compareValues adds to d the distances between the values of part p of both tensors. It compares float64s if float32 would round the
// values of one tensor or both. It fails if reading does, or if the work is canceled.
func (t *compareTask) compareValues(w *worker, p uint64, d *distance) error {
	for first, n := range chunks(p, t.a.Elements()) {
		var err error
		if t.a.isWide || t.b.isWide {
			err = compareRange(d, first, n, &t.a, &t.b, w.readerA.values64, w.readerB.values64)
		} else {
			err = compareRange(d, first, n, &t.a, &t.b, w.readerA.values32, w.readerB.values32)
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

// compareRange reads n values of a by readA, and n of b by readB, at most chunk, from element first on. It adds their distances to d.
// It fails if a read does.
func compareRange[T float](d *distance, first, n uint64, a, b *leasedTensor, readA, readB func(s *leasedTensor, first, n uint64) ([]T, error)) error {
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

// end releases both tensors, and returns the pair with the result of the comparison. err is the error of the first part that failed, or
// nil: it becomes the pair's Err unless that is set. The error that end returns is always nil, so that other pairs go on.
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
	p.MaxAbs, p.MaxAbsAt, p.MaxRel, p.MaxRelAt = d.maxAbs, d.maxAbsAt, d.maxRel, d.maxRelAt
	p.Errors = d.Errors
	// Equal bytes were not found, yet all values are equal: rounding has hidden the difference.
	p.isRounded = p.Differing == 0 && t.areBytesComparable() && (t.a.DType() == layout.I64 || t.a.DType() == layout.U64) && t.a.isWide
	return p, nil
}
