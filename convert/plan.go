package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
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
	model     *loader.Model
	opts      *Options
	target    *target
	originals map[string]original // that the source knows of
	buf       buffers

	list    []encoding
	kept    []Kept
	changed []Changed
	leftOut []string
	parts   []scheme.Part
}

// newPlan also finds the scales of tensors that become int8: the new file's metadata, and so
// its head, has them.
func newPlan(ctx context.Context, m *loader.Model, lease *loader.Lease, to *target, opts *Options) (*planner, error) {
	if d := opts.DType; d != layout.Invalid && !(CanEncode(d) && to.canHave(d)) {
		return nil, fmt.Errorf("%w: re-encoding to %v in %s", layout.ErrUnsupported, d, to.name)
	}
	p := &planner{ctx: ctx, model: m, opts: opts, target: to}
	if f := m.Format(); f == layout.APR2 || f == layout.SafeTensors {
		from, err := lease.Metadata()
		if err != nil {
			return nil, err
		}
		var md layout.Metadata
		describe(&md, f, from)
		p.originals = originals(md)
	}
	if err := p.findParts(lease); err != nil {
		return nil, err
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
	r.Tensors, r.Kept, r.Changed, r.LeftOut, r.Quantized = len(p.list), p.kept, p.changed, p.leftOut, p.parts
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
	if !e.asIs {
		if _, err := p.part(t, true); err != nil {
			return err
		}
	}
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
	case opts.keeps(t.Name()):
		return "by request"
	case !dequant.Supported(t.DType()):
		return fmt.Sprintf("%v has no values in float32", t.DType())
	case kind != layout.KindFloat && kind != layout.KindQuantized && !e.scaled:
		return fmt.Sprintf("%v without a scale", t.DType())
	}
	if _, err := d.Size(e.shape); err != nil {
		return err.Error()
	}
	if opts.All || d != layout.I8 && !d.Quantized() {
		return ""
	}
	return whyPrecise(t.Name(), e.shape)
}

// whyPrecise says why a tensor should not be quantized unless Options.All asks for it.
func whyPrecise(name string, shape []uint64) string {
	switch last, before := lastWords(name); {
	case strings.Contains(last+before, "norm"):
		return "a norm"
	case strings.HasSuffix(last, "bias"), last == "weight" && strings.HasSuffix(before, "bias"):
		return "a bias"
	}
	long := 0
	for _, n := range shape {
		if n > 1 {
			long++
		}
	}
	if long < 2 {
		return "one dimension"
	}
	return ""
}

// lastWords returns the last two words of a name, in lower case. Dots and slashes divide words.
func lastWords(name string) (last, before string) {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '/' })
	words = append([]string{"", ""}, words...)
	return words[len(words)-1], words[len(words)-2]
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
	wide            []byte // of F64s
}

func (b *buffers) step() []float32 {
	if b.values == nil {
		b.values, b.decoded = mmapio.Aligned[float32](step), mmapio.Aligned[float32](step)
		b.encoded = make([]byte, 4*step)
	}
	return b.values
}

// writeTo writes the tensor's bytes in its new encoding, and counts what that does not hold.
func (e *encoding) writeTo(w io.Writer, buf *buffers) (lost dequant.Loss, err error) {
	switch {
	case e.copied():
		_, err := e.tensor.WriteTo(w)
		return lost, err
	case e.asIs:
		rest := io.NewSectionReader(e.tensor, int64(e.skip), int64(e.tensor.RawBytes())-int64(e.skip))
		buf.step()
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{rest}, buf.encoded)
		return lost, err
	}
	buf.step()
	encode := func(values []float32) error {
		encoded := buf.encoded[:len(values)/e.dtype.BlockElems()*e.dtype.BlockBytes()]
		more, err := dequant.QuantizeLoss(e.dtype, encoded, values, buf.decoded, e.quant.Scale)
		if err != nil {
			return err
		}
		lost.Add(more)
		_, err = w.Write(encoded)
		return err
	}
	if e.tensor.DType() == layout.F64 {
		n := narrower{buf: buf, lost: &lost, encode: encode}
		if _, err := e.tensor.WriteTo(&n); err != nil {
			return lost, err
		}
		return lost, n.flush()
	}
	for values, err := range e.tensor.Values(buf.step()) {
		if err == nil {
			err = encode(values)
		}
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// narrower makes float32s of the F64s that it is written, a step at a time, and counts what
// these do not hold.
type narrower struct {
	buf    *buffers
	n      int // bytes in buf.wide
	lost   *dequant.Loss
	encode func(values []float32) error
}

func (n *narrower) Write(b []byte) (written int, err error) {
	if n.buf.wide == nil {
		n.buf.wide = make([]byte, 8*step)
	}
	for written < len(b) {
		more := copy(n.buf.wide[n.n:], b[written:])
		n.n += more
		written += more
		if n.n == len(n.buf.wide) {
			if err := n.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush encodes what has been written since.
func (n *narrower) flush() error {
	stored, values := n.buf.wide[:n.n], n.buf.step()[:n.n/8]
	n.n = 0
	if len(values) == 0 {
		return nil
	}
	if err := dequant.ExpandParallel(layout.F64, values, stored); err != nil {
		return err
	}
	n.lost.AddNarrowed(stored, values)
	return n.encode(values)
}
