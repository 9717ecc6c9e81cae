package survey

import (
	"bytes"
	"context"
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
	// Distance says how far the values are apart. If SameElements is true, the values were not read: Values counts them all, and the
	// rest is 0.
	Distance

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

// Compare compares the tensors of two models by name. It calls deliver with each result, one call at a time, in the order of the tensors of
// a. Results for tensors that only b has come last. Tensors that are stored alike are compared as bytes, and expanded only if the bytes
// differ. a may be b, and opts nil. A tensor that cannot be read has its error in Pair.Err. Compare fails if a call of deliver fails, or if
// ctx ends. It also fails if a model is closed or one of its files has changed.
func Compare(ctx context.Context, a, b *loader.Model, opts *Options, deliver func(*Pair) error) error {
	if opts == nil {
		opts = &Options{}
	}
	list := opts.tensors(a)
	inA := len(list)
	list = append(list, slices.DeleteFunc(opts.tensors(b), func(t loader.Tensor) bool { _, err := a.Tensor(t.Name()); return err == nil })...)
	pair := func(i int) *Pair {
		if i >= inA {
			return &Pair{Name: list[i].Name(), B: &list[i]}
		}
		p := &Pair{Name: list[i].Name(), A: &list[i]}
		if t, err := b.Tensor(p.Name); err == nil {
			p.B = &t
			p.SameShape = slices.Equal(squeezed(p.A.Shape()), squeezed(t.Shape()))
		}
		return p
	}
	bytes := func(i int) uint64 { // the stored bytes of both tensors, or 0 if they are not compared
		if p := pair(i); p.SameShape {
			return p.A.RawBytes() + p.B.RawBytes()
		}
		return 0
	}
	return run(ctx, opts, len(list), bytes, func(ctx context.Context, j *job, i int) (*Pair, error) {
		p := pair(i)
		if p.SameShape {
			if p.Err = p.compare(ctx, j, a, b); p.Err != nil { // other pairs go on
				p.Compared = false
			}
		}
		return p, nil
	}, deliver, a, b)
}

// compare compares the tensors of p, of models a and b, which have the same shape. If types, scales and the parts of a weight are
// equal, it compares stored bytes, and values only if bytes differ. It does not compare values if a tensor has none. It fails if reading
// does, or if the work is canceled.
func (p *Pair) compare(ctx context.Context, j *job, modelA, modelB *loader.Model) error {
	a, err := leaseTensor(ctx, modelA, *p.A)
	if err != nil {
		return err
	}
	defer a.lease.Release()
	b, err := leaseTensor(ctx, modelB, *p.B)
	if err != nil {
		return err
	}
	defer b.lease.Release()
	bytesDecide := a.DType() == b.DType() && a.hasScale == b.hasScale && a.quant == b.quant && sameParts(&a, &b)
	if bytesDecide {
		equal, err := equalBytes(ctx, j, &a, &b)
		if err != nil {
			return err
		}
		if equal {
			p.SameElements, p.Compared, p.Values = true, true, p.A.Elements()
			return nil
		}
	}
	if p.Compared = checkValues(*p.A) == nil && checkValues(*p.B) == nil; !p.Compared {
		return nil
	}
	batches := make([]Distance, batchCount(a.Elements()))
	err = j.eachBatch(uint64(len(batches)), func(w *worker, batch uint64) error {
		if a.isWide || b.isWide { // float32 would round the values of one tensor or both
			return compareValues(ctx, j, w, batch, &a, &b, &batches[batch], (*reader).values64)
		}
		return compareValues(ctx, j, w, batch, &a, &b, &batches[batch], (*reader).values32)
	})
	if err != nil { // what some batches have found says nothing of the others
		return err
	}
	for _, d := range batches {
		p.Distance.merge(d)
	}
	// Equal bytes were not found, yet all values are equal: rounding has hidden the difference.
	p.isRounded = p.Differing == 0 && bytesDecide && (a.DType() == layout.I64 || a.DType() == layout.U64) && a.isWide
	return nil
}

// sameParts reports whether two logical tensors have the same scheme, and parts of the same names, types and shapes. It ignores dimensions
// of 1, and takes F8_E8M0 and U8 for the same type. It reports true if neither tensor is logical, and false if only one of them is.
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

// equalBytes reports whether the stored bytes of a and b are equal. Both tensors must have the same number of stored bytes. It stops once a
// worker has found a difference. It fails if reading does, or if the work is canceled.
func equalBytes(ctx context.Context, j *job, a, b *leasedTensor) (bool, error) {
	var differ atomic.Bool
	err := j.eachBatch(batchCount(a.RawBytes()), func(w *worker, batch uint64) error {
		end := min((batch+1)*batchElements, a.RawBytes())
		for off := batch * batchElements; off < end && !differ.Load(); off += hashStep {
			n := min(hashStep, end-off)
			bytesA, err := w.readerA.storedBytes(a, off, n)
			if err != nil {
				return err
			}
			bytesB, err := w.readerB.storedBytes(b, off, n)
			if err != nil {
				return err
			}
			if !bytes.Equal(bytesA, bytesB) {
				differ.Store(true)
			}
			if err := j.progress(ctx, 2*n); err != nil {
				return err
			}
		}
		return nil
	})
	return !differ.Load(), err
}

// compareValues adds to d the distances between values of a and b: the values of batch p, which it reads by the function read. It fails if
// reading does, or if the work is canceled.
func compareValues[T float](ctx context.Context, j *job, w *worker, p uint64, a, b *leasedTensor, d *Distance, read readFunc[T]) error {
	for first, n := range chunks(p, a.Elements()) {
		va, err := read(&w.readerA, a, first, n)
		if err != nil {
			return err
		}
		vb, err := read(&w.readerB, b, first, n)
		if err != nil {
			return err
		}
		compare(d, va, vb, first)
		if err := j.progress(ctx, a.bytesOf(n)+b.bytesOf(n)); err != nil {
			return err
		}
	}
	return nil
}
