package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// CanEncode reports whether ToAPR2 can re-encode to d: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0,
// Q5_1, or I8, which is int8 with one scale for each tensor.
func CanEncode(d layout.DType) bool { return d == layout.I8 || dequant.CanQuantize(d) }

// encoding is how one tensor is written.
type encoding struct {
	tensor loader.Tensor
	dtype  layout.DType
	// quant is the scale of a tensor of integers, where scaled is true.
	quant  layout.Quant
	scaled bool
}

// copied reports whether the stored bytes are written as they are.
func (e *encoding) copied() bool { return e.dtype == e.tensor.DType() }

// newPlan decides for every tensor how it is written, and finds the scales of those that
// become int8: the new file's metadata, and so its head, has them.
func newPlan(ctx context.Context, lease *loader.Lease, opts *Options) (plan []encoding, kept []Kept, err error) {
	if opts.DType != layout.Invalid && !CanEncode(opts.DType) {
		return nil, nil, fmt.Errorf("%w: re-encoding to %v", layout.ErrUnsupported, opts.DType)
	}
	var buf buffers
	for t := range lease.Tensors() {
		e := encoding{tensor: t, dtype: t.DType()}
		if e.quant, e.scaled, err = t.Scale(); err != nil {
			return nil, nil, err
		}
		if reason := whyKept(&e, opts); reason != "" {
			kept = append(kept, Kept{t.Name(), reason})
		} else if opts.DType != layout.Invalid && opts.DType != t.DType() {
			switch as, err := reencoded(ctx, t, opts.DType, &buf); {
			case errors.Is(err, dequant.ErrNotFinite):
				kept = append(kept, Kept{t.Name(), "no scale for NaN and infinity"})
			case err != nil:
				return nil, nil, err
			default:
				e = as
			}
		}
		plan = append(plan, e)
	}
	return plan, kept, nil
}

// whyKept says why a tensor stays as it is although opts wants it re-encoded.
func whyKept(e *encoding, opts *Options) string {
	t, d := e.tensor, opts.DType
	shape := t.Shape()
	if d == layout.Invalid || d == t.DType() {
		return ""
	}
	switch kind := t.DType().Kind(); {
	case opts.Keep != nil && opts.Keep(t.Name()):
		return "by request"
	case !dequant.Supported(t.DType()):
		return fmt.Sprintf("%v has no values in float32", t.DType())
	case kind != layout.KindFloat && kind != layout.KindQuantized && !e.scaled:
		return fmt.Sprintf("%v without a scale", t.DType())
	}
	if _, err := d.Size(shape); err != nil {
		return err.Error()
	}
	return ""
}

// reencoded is how t is written as type d. For I8 it reads the whole tensor.
func reencoded(ctx context.Context, t loader.Tensor, d layout.DType, buf *buffers) (e encoding, err error) {
	e = encoding{tensor: t, dtype: d}
	if d != layout.I8 {
		return e, nil
	}
	var scale dequant.I8Scale
	for values, err := range t.Values(buf.step()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return e, err
		}
		scale.Add(values)
	}
	e.scaled = true
	e.quant.Scale, err = scale.Scale()
	return e, err
}

// step is how many elements are expanded and encoded at a time: enough to occupy all
// cores, little enough to be no burden. It is a multiple of every block.
const step = 1 << 20

// buffers are reused from tensor to tensor.
type buffers struct {
	values, decoded []float32
	encoded         []byte
}

func (b *buffers) step() []float32 {
	if b.values == nil {
		b.values, b.decoded = mmapio.Aligned[float32](step), mmapio.Aligned[float32](step)
		b.encoded = make([]byte, 4*step)
	}
	return b.values
}

// writeTo writes the tensor's bytes in its new encoding. lost counts the values that the
// encoding cannot hold at all: see Lost.
func (e *encoding) writeTo(w io.Writer, buf *buffers) (lost uint64, err error) {
	if e.copied() {
		_, err := e.tensor.WriteTo(w)
		return 0, err
	}
	for values, err := range e.tensor.Values(buf.step()) {
		if err != nil {
			return lost, err
		}
		encoded := buf.encoded[:len(values)/e.dtype.BlockElems()*e.dtype.BlockBytes()]
		if err := e.encode(encoded, values); err != nil {
			return lost, err
		}
		if e.dtype != layout.F32 && e.dtype != layout.I8 { // which hold all that is finite
			decoded := buf.decoded[:len(values)]
			if err := dequant.ExpandParallel(e.dtype, decoded, encoded); err != nil {
				return lost, err
			}
			lost += countLost(values, decoded)
		}
		if _, err := w.Write(encoded); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

func (e *encoding) encode(dst []byte, values []float32) error {
	if e.dtype == layout.I8 {
		return dequant.ToI8Scaled(dst, values, e.quant.Scale)
	}
	return dequant.QuantizeParallel(e.dtype, dst, values)
}

// countLost counts values that were finite and are not any more, or the other way round.
func countLost(was, is []float32) (n uint64) {
	const exponent = 0x7f800000 // all set: NaN or infinity
	for i, x := range was {
		if (math.Float32bits(x)&exponent == exponent) != (math.Float32bits(is[i])&exponent == exponent) {
			n++
		}
	}
	return n
}
