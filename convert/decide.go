package convert

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/quantize"
)

// CanEncode reports whether tensors can be re-encoded to d: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0,
// Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, or I8, which is int8 with one scale for each tensor.
func CanEncode(d layout.DType) bool { return d == layout.I8 || quantize.Supported(d) }

// decide fills in Tensors. Metadata describes the source so far. It also finds the scales of tensors that become int8, since the metadata
// has them.
func (p *Plan) decide(ctx context.Context, lease *loader.Lease) error {
	to := p.target
	if p.opts.Recipe != "" {
		var err error
		if p.resolver, err = newResolver(ctx, p); err != nil {
			return err
		}
		p.opts.DType = p.resolver.dtype
	}
	if err := p.opts.Importance.check(p.model); err != nil {
		return err
	}
	if d := p.opts.DType; d != layout.Invalid && !(CanEncode(d) && to.canHave(d)) {
		return fmt.Errorf("%w: re-encoding to %v in %s", layout.ErrUnsupported, d, to.name)
	}
	var known originals
	if f := p.model.Format(); CanWrite(f) {
		known = originalsOf(p.Metadata)
	}
	known.comfy = comfyShapes(object(p.Metadata, ggufKey))
	var aliases map[string]bool
	if p.opts.NoAliases {
		aliases = aliasesOf(p.model)
	}
	var buf buffers
	same, next := (*Decision)(nil), new(Decision)
	sources, count := p.sources(lease), p.model.Len()
	if !p.decoded {
		count = 0 // with all parts
		for _, f := range p.model.Files() {
			count += len(f.Layout.Index().Tensors)
		}
	}
	p.Tensors = make([]Tensor, 0, count-len(aliases))
	for t, stays := range sources {
		if aliases[t.Name()] {
			p.LeftOut = append(p.LeftOut, t.Name())
			continue
		}
		n := len(p.Tensors)
		p.Tensors = append(p.Tensors, Tensor{Name: t.Name(), From: t.DType(), source: t, stays: stays, at: uint32(n), Decision: next})
		x := &p.Tensors[n]
		if err := x.decide(ctx, p, &known, &buf); err != nil {
			return err
		}
		if same != nil && *same == *next {
			*next, x.Decision = Decision{}, same
		} else {
			same, next = next, new(Decision)
		}
	}
	return nil
}

// aliasesOf returns the names of the tensors whose bytes are part of another's.
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

func (t *Tensor) decide(ctx context.Context, p *Plan, known *originals, buf *buffers) (err error) {
	if t.source.Scheme() != nil {
		return t.decideWeight(ctx, p, buf)
	}
	if (p.opts.DType != layout.Invalid || p.target.weights) && !p.keeps(t) {
		if err := p.refuse(t.source); err != nil {
			return err
		}
	}
	if t.quant, t.scaled, err = t.source.Scale(); err != nil {
		return err
	}
	if o, ok := known.find(t.Name); ok {
		t.restore(o)
	}
	t.To, t.Shape = t.From, t.FromShape()
	if p.opts.DType != layout.Invalid {
		if err := t.requantize(ctx, p, buf); err != nil {
			return err
		}
	}
	if shape := known.comfy[t.Name]; shape != nil && t.reshaped(p, shape) {
		t.Shape = slices.Clone(shape)
	}
	t.fit(p)
	if t.Reencoded {
		if err := p.refuse(t.source); err != nil {
			return err
		}
	}
	t.Bytes, _ = t.To.Size(t.Shape) // the target's writer refuses what has no size
	return nil
}

// requantize plans to re-encode t as the options say.
func (t *Tensor) requantize(ctx context.Context, p *Plan, buf *buffers) error {
	d, fallback := p.typeFor(t)
	if d == t.source.DType() {
		return nil
	}
	if to := p.target; !CanEncode(d) || !to.canHave(d) {
		return fmt.Errorf("%w: re-encoding tensor %q to %v in %s", layout.ErrUnsupported, t.Name, d, to.name)
	}
	if t.NotReencoded = t.whyNotReencoded(p, d, fallback != ""); t.NotReencoded != "" {
		return nil
	}
	if err := t.reencode(ctx, d, buf); err != nil || !t.Reencoded {
		return err
	}
	t.Fallback = fallback
	if d.Quantized() {
		if weights := p.opts.Importance[t.Name]; weights != nil {
			t.importance, t.Weighted = &weights, true
		}
	}
	return nil
}

// whyNotReencoded returns the reason why a tensor stays as it is although the options want it as type d.
func (t *Tensor) whyNotReencoded(p *Plan, d layout.DType, fallback bool) string {
	from, opts := t.source.DType(), &p.opts
	switch kind := from.Kind(); {
	case p.keeps(t):
		return "by request"
	case t.Scheme != "": // whose values are known
	case !dequant.Supported(from):
		return fmt.Sprintf("%v has no values in float32", from)
	case kind != layout.KindFloat && kind != layout.KindQuantized && !t.scaled:
		return fmt.Sprintf("%v without a scale", from)
	}
	if _, err := d.Size(t.Shape); err != nil {
		return err.Error()
	}
	// ggml wants F32 of tensors that it adds to activations or multiplies them with.
	halved := p.Format == layout.GGUF && from == layout.F32 && d.BlockBytes() == 2
	if opts.All || d != layout.I8 && !d.Quantized() && !fallback && !halved {
		return ""
	}
	return cmp.Or(whyPrecise(t.Name, t.Shape), p.whyLeft(t.Name))
}

// whyPrecise returns the reason why a tensor should not be quantized without Options.All.
func whyPrecise(name string, shape []int) string {
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

// reencode plans to write t as type d. For I8 it reads the whole tensor; without a finite scale
// the tensor stays as it is stored.
func (t *Tensor) reencode(ctx context.Context, d layout.DType, buf *buffers) error {
	quant, scaled := layout.Quant{}, d == layout.I8
	if scaled {
		var scale quantize.Int8Scale
		for run, err := range t.source.Values(buf.step()) {
			if err := cmp.Or(err, context.Cause(ctx)); err != nil {
				return err
			}
			scale.Add(run.Values)
		}
		var err error
		if quant.Scale, err = scale.Scale(); err != nil { // ErrNotFinite: there is no other
			t.NotReencoded = "no scale for NaN and infinity"
			return nil
		}
	}
	t.To, t.Reencoded, t.quant, t.scaled = d, true, quant, scaled
	return nil
}
