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
	shape  []uint64
	// asIs says that the tensor's bytes, from byte skip on, are written as they are.
	asIs bool
	skip int
	// original is what the tensor really is.
	original original
	// quant is the scale of a tensor of integers, where scaled is true.
	quant  layout.Quant
	scaled bool
}

// copied reports whether the stored bytes are written as they are.
func (e *encoding) copied() bool { return e.asIs && e.skip == 0 }

// planner decides for every tensor how it is written.
type planner struct {
	ctx       context.Context
	opts      *Options
	target    *target
	originals map[string]original // that the source knows of
	buf       buffers

	list    []encoding
	kept    []Kept
	changed []Changed
	leftOut []string
}

// newPlan also finds the scales of tensors that become int8: the new file's metadata, and so
// its head, has them.
func newPlan(ctx context.Context, m *loader.Model, lease *loader.Lease, to *target, opts *Options) (*planner, error) {
	if d := opts.DType; d != layout.Invalid && !(CanEncode(d) && to.canHave(d)) {
		return nil, fmt.Errorf("%w: re-encoding to %v in %s", layout.ErrUnsupported, d, to.name)
	}
	p := &planner{ctx: ctx, opts: opts, target: to}
	if f := m.Format(); f == layout.APR2 || f == layout.SafeTensors {
		from, err := lease.Metadata()
		if err != nil {
			return nil, err
		}
		var md layout.Metadata
		describe(&md, f, from)
		p.originals = originals(md)
	}
	var aliases map[string]bool
	if opts.NoAliases {
		aliases = aliasesOf(m)
	}
	for t := range lease.Tensors() {
		if aliases[t.Name()] {
			p.leftOut = append(p.leftOut, t.Name())
		} else if err := p.add(t); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// report enters what has been decided.
func (p *planner) report(r *Result) {
	r.Tensors, r.Kept, r.Changed, r.LeftOut = len(p.list), p.kept, p.changed, p.leftOut
}

// aliasesOf are the tensors of m whose bytes are those of another.
func aliasesOf(m *loader.Model) map[string]bool {
	names := make(map[string]bool)
	for _, f := range m.Files() {
		list := f.Layout.Index().Tensors
		for i := range list {
			if list[i].Alias {
				names[string(list[i].Name)] = true
			}
		}
	}
	return names
}

func (p *planner) add(t loader.Tensor) (err error) {
	e := encoding{tensor: t, dtype: t.DType(), shape: t.Shape(), asIs: true, original: original{shape: t.Shape()}}
	if e.quant, e.scaled, err = t.Scale(); err != nil {
		return err
	}
	p.restore(&e)
	if reason := whyKept(&e, p.opts); reason != "" {
		p.kept = append(p.kept, Kept{t.Name(), reason})
	} else if d := p.opts.DType; d != layout.Invalid && d != t.DType() {
		switch as, err := reencoded(p.ctx, e, d, &p.buf); {
		case errors.Is(err, dequant.ErrNotFinite):
			p.kept = append(p.kept, Kept{t.Name(), "no scale for NaN and infinity"})
		case err != nil:
			return err
		default:
			e = as
		}
	}
	p.fit(&e)
	p.list = append(p.list, e)
	return nil
}

// whyKept says why a tensor stays as it is although opts wants it re-encoded.
func whyKept(e *encoding, opts *Options) string {
	t, d := e.tensor, opts.DType
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
	if _, err := d.Size(e.shape); err != nil {
		return err.Error()
	}
	return ""
}

// reencoded is how e's tensor is written as type d. For I8 it reads the whole tensor.
func reencoded(ctx context.Context, e encoding, d layout.DType, buf *buffers) (encoding, error) {
	t := e.tensor
	e.dtype, e.asIs, e.quant, e.scaled = d, false, layout.Quant{}, false
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
	var err error
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
	switch {
	case e.copied():
		_, err := e.tensor.WriteTo(w)
		return 0, err
	case e.asIs:
		rest := io.NewSectionReader(e.tensor, int64(e.skip), int64(e.tensor.RawBytes())-int64(e.skip))
		buf.step()
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{rest}, buf.encoded)
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
