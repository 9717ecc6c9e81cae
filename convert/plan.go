package convert

import (
	"context"
	"fmt"
	"io"

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
		} else if opts.DType != layout.Invalid && (opts.DType != t.DType()) {
			if err := e.reencode(ctx, opts.DType, &buf); err != nil {
				return nil, nil, err
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

func (e *encoding) reencode(ctx context.Context, d layout.DType, buf *buffers) error {
	e.dtype, e.quant, e.scaled = d, layout.Quant{}, false
	if d != layout.I8 {
		return nil
	}
	var scale dequant.I8Scale
	for values, err := range e.tensor.Values(buf.step()) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		scale.Add(values)
	}
	s, err := scale.Scale()
	if err != nil {
		return fmt.Errorf("tensor %q: %w", e.tensor.Name(), err)
	}
	e.quant, e.scaled = layout.Quant{Scale: s}, true
	return nil
}

// step is how many elements are expanded and encoded at a time: enough to occupy all
// cores, little enough to be no burden. It is a multiple of every block.
const step = 1 << 20

// buffers are reused from tensor to tensor.
type buffers struct {
	values  []float32
	encoded []byte
}

func (b *buffers) step() []float32 {
	if b.values == nil {
		b.values = mmapio.Aligned[float32](step)
	}
	return b.values
}

// writeTo writes the tensor's bytes in its new encoding.
func (e *encoding) writeTo(w io.Writer, buf *buffers) error {
	if e.copied() {
		_, err := e.tensor.WriteTo(w)
		return err
	}
	if buf.encoded == nil {
		buf.encoded = make([]byte, 4*step)
	}
	for values, err := range e.tensor.Values(buf.step()) {
		if err != nil {
			return err
		}
		encoded := buf.encoded[:len(values)/e.dtype.BlockElems()*e.dtype.BlockBytes()]
		if e.dtype == layout.I8 {
			err = dequant.ToI8Scaled(encoded, values, e.quant.Scale)
		} else {
			err = dequant.QuantizeParallel(e.dtype, encoded, values)
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(encoded); err != nil {
			return err
		}
	}
	return nil
}
