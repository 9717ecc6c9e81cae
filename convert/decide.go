package convert

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// decide sets Tensors and LeftOut: how every tensor is written. It expects Metadata to describe the source. It reads
// the tensors that become int8, since the metadata has their scales. The error says what cannot be written.
func (p *Plan) decide(ctx context.Context) (err error) {
	if p.opts.Recipe != "" {
		p.resolver, err = newResolver(ctx, p.model, p.opts.Recipe, textAt(p.Metadata, "model_type"), p.ByImportance())
		if err != nil {
			return err
		}
		p.opts.DType = p.resolver.dtype
	}
	if err := p.opts.Importance.check(p.model); err != nil {
		return err
	}
	if d := p.opts.DType; d != layout.Invalid && !p.target.canEncode(d) {
		return fmt.Errorf("%w: re-encoding to %v in %s", layout.ErrUnsupported, d, p.target.name)
	}
	dec := decider{Plan: p, ctx: ctx, comfyShapes: comfyShapes(object(p.Metadata, ggufKey))}
	if CanWrite(p.model.Format()) { // an earlier conversion may have written the source
		dec.originals = originalsOf(p.Metadata)
	}
	p.findWeights()
	files := p.model.Files()
	p.Tensors = make([]Tensor, 0, p.model.Len())
	for t, isPart := range p.sources() {
		if p.opts.NoAliases && isAlias(files, t) {
			p.LeftOut = append(p.LeftOut, t.Name())
			continue
		}
		x := Tensor{Name: t.Name(), From: t.DType(), source: t, isPart: isPart, sourcePosition: uint32(len(p.Tensors))}
		if err := dec.decide(&x); err != nil {
			return err
		}
		p.Tensors = append(p.Tensors, x)
	}
	return nil
}

// decider decides how tensors of a plan are written, one after the other.
type decider struct {
	*Plan
	ctx         context.Context
	buffers     buffers
	originals   map[string]any   // types and shapes before an earlier conversion, by name: see readOriginal
	comfyShapes map[string][]int // shapes that a GGUF source says blocks have as plain numbers, by name
}

// decide sets how t is written: its types, shape, scale, size, and the reasons for changes. The error is a *PartError
// for codes that cannot be decoded, if the new file would present them as numbers.
func (p *decider) decide(t *Tensor) (err error) {
	if t.source.Scheme() != nil {
		return p.decideWeight(t)
	}
	if (p.opts.DType != layout.Invalid || p.target.onlyWeights) && !p.staysStored(t) {
		if err := p.refuseCodes(t.source); err != nil {
			return err
		}
	}
	if t.scale, t.hasScale, err = t.source.Scale(); err != nil {
		return err
	}
	if o, ok := readOriginal(p.originals[t.Name]); ok {
		t.restore(o)
	}
	t.To, t.Shape = t.From, t.FromShape()
	if p.opts.DType != layout.Invalid {
		if err := p.reencode(t); err != nil {
			return err
		}
	}
	if shape := p.comfyShapes[t.Name]; shape != nil && t.canReshape(p.target, shape) {
		t.Shape = slices.Clone(shape)
	}
	t.fitTarget(p.Plan)
	if t.Reencoded { // as Options.DType says, or by fitTarget
		if err := p.refuseCodes(t.source); err != nil {
			return err
		}
	}
	t.Bytes, _ = t.To.Size(t.Shape) // the target's writer refuses what has no size
	return nil
}

// decideWeight plans to write the values of t, a quantized weight, as Options.DType says. They become F32 without such
// a type, for tensors of Options.Keep, and wherever reencode finds a reason against it. t.Changed has the reason. It
// fails if values cannot be read.
func (p *decider) decideWeight(t *Tensor) error {
	t.Scheme = t.source.Scheme().Scheme
	t.To, t.Shape, t.Reencoded = layout.F32, t.FromShape(), true
	if p.opts.DType == layout.Invalid || p.opts.keeps(t.Name) {
		t.Changed = fmt.Sprintf("%s has no type for codes of %s, the values are the same", p.target.name, t.Scheme)
	} else if err := p.reencode(t); err != nil {
		return err
	}
	if t.NotReencoded != "" { // a reason for F32: the codes cannot stay
		t.Changed, t.NotReencoded = t.NotReencoded, ""
	}
	t.joinDims(p.target)
	t.Bytes, _ = t.To.Size(t.Shape)
	return nil
}

// reencode plans to re-encode t as the options say, or sets NotReencoded to the reason against it. For I8 it reads the
// whole tensor. A type that the format lacks is layout.ErrUnsupported. A tensor that has the type already stays.
func (p *decider) reencode(t *Tensor) error {
	d, fallback := p.typeFor(t)
	if d == t.source.DType() {
		return nil
	}
	if !p.target.canEncode(d) {
		return fmt.Errorf("%w: re-encoding tensor %q to %v in %s", layout.ErrUnsupported, t.Name, d, p.target.name)
	}
	if t.NotReencoded = p.whyNotReencoded(t, d, fallback != ""); t.NotReencoded != "" {
		return nil
	}
	scale := layout.Quant{}
	if d == layout.I8 {
		var found quantize.Int8Scale
		for run, err := range t.source.Values(p.buffers.rows(1)) {
			if err := cmp.Or(err, context.Cause(p.ctx)); err != nil {
				return err
			}
			found.Add(run.Values)
		}
		var err error
		if scale.Scale, err = found.Scale(); err != nil { // ErrNotFinite is its only error
			t.NotReencoded = "no scale for NaN and infinity"
			return nil
		}
	}
	t.To, t.Reencoded, t.scale, t.hasScale, t.Fallback = d, true, scale, d == layout.I8, fallback
	t.Weighted = d.Quantized() && p.opts.Importance[t.Name] != nil
	return nil
}

// blocksOf32 are the types that llama.cpp takes in place of others if rows are no multiple of 256.
var blocksOf32 = map[layout.DType]layout.DType{
	layout.Q2_K: layout.Q4_0, layout.Q3_K: layout.Q4_0, layout.IQ4_XS: layout.IQ4_NL,
	layout.Q4_K: layout.Q5_0, layout.Q5_K: layout.Q5_1, layout.Q6_K: layout.Q8_0,
}

// typeFor returns the type to re-encode a tensor to: that of Options.TypeOf, else of the recipe, else Options.DType. If
// its rows are no multiple of that type's block, another type may replace it. fallback then says why; else it is "".
func (p *Plan) typeFor(t *Tensor) (d layout.DType, fallback string) {
	if p.opts.TypeOf != nil {
		d = p.opts.TypeOf(t.Name)
	}
	switch {
	case d != layout.Invalid:
	case p.resolver != nil:
		d = p.resolver.resolve(t.Name, t.Shape)
	default:
		d = p.opts.DType
	}
	if len(t.Shape) == 0 || t.Shape[len(t.Shape)-1]%d.BlockElems() == 0 {
		return d, ""
	}
	columns := t.Shape[len(t.Shape)-1]
	why := fmt.Sprintf("rows no multiple of %d, as %v wants", d.BlockElems(), d)
	switch smaller, ok := blocksOf32[d]; {
	case ok && columns%32 == 0:
		return smaller, why
	case ok:
		return layout.F16, why + ", nor of 32"
	case p.resolver != nil:
		return layout.F16, why
	}
	return d, "" // whyNotReencoded finds that d does not fit
}

// whyNotReencoded returns the reason why a tensor stays as it is although the options want it as type d, or "".
// isFallback reports that d replaces the type asked for, as typeFor does for rows that do not fit.
func (p *Plan) whyNotReencoded(t *Tensor, d layout.DType, isFallback bool) string {
	from := t.source.DType()
	switch kind := from.Kind(); {
	case p.staysStored(t):
		return "by request"
	case t.Scheme != "": // a quantized weight, which has values in float32
	case !dequant.Supported(from):
		return fmt.Sprintf("%v has no values in float32", from)
	case kind != layout.KindFloat && kind != layout.KindQuantized && !t.hasScale:
		return fmt.Sprintf("%v without a scale", from)
	}
	if _, err := d.Size(t.Shape); err != nil {
		return err.Error()
	}
	// ggml wants F32 of tensors that it adds to activations or multiplies them with.
	isHalved := p.Format == layout.GGUF && from == layout.F32 && d.BlockBytes() == 2
	if p.opts.All || d != layout.I8 && !d.Quantized() && !isFallback && !isHalved {
		return ""
	}
	if why := whyPrecise(t.Name, t.Shape); why != "" || p.resolver == nil && p.Format != layout.GGUF {
		return why
	}
	isGGML := p.model.Format() == layout.GGUF || strings.HasPrefix(t.Name, "blk.")
	switch {
	case containsAny(t.Name, smallMatrices):
		return "small, and left alone by llama.cpp"
	case isGGML && !strings.HasSuffix(t.Name, "weight"):
		return "no weight by its name, and left alone by llama.cpp"
	}
	return ""
}
