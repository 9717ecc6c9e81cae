package convert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// decide sets Tensors, which says how every tensor is written, and LeftOut. Metadata must describe the source. It reads the
// tensors that become int8, since the metadata has their scales. It fails for options that the format cannot follow. It also
// fails if newResolver, Importance.checkNames or decideTensor does.
func (p *Plan) decide(ctx context.Context) (err error) {
	if p.opts.Recipe != "" {
		p.resolver, err = newResolver(ctx, p.model, p.opts.Recipe, textAt(p.Metadata, "model_type"), p.ByImportance())
		if err != nil {
			return err
		}
		p.opts.DType = p.resolver.dtype
	}
	if err := p.opts.Importance.checkNames(p.model); err != nil {
		return err
	}
	if d := p.opts.DType; d != layout.Invalid && !p.target.canEncode(d) {
		return fmt.Errorf("%w: re-encoding to %v in %s", layout.ErrUnsupported, d, p.target.name)
	}
	var originals map[string]any    // types and shapes before an earlier conversion, by name
	if CanWrite(p.model.Format()) { // which may have written the source
		originals = maps.Collect(object(p.Metadata, originalsKey).All())
	}
	shapes := comfyShapes(object(p.Metadata, ggufKey))
	p.findWeights()
	files := p.model.Files()
	p.Tensors = make([]Tensor, 0, p.model.Len())
	var buf buffers
	for t, isPartOrMarker := range p.sources() {
		if p.opts.NoAliases && isAlias(files, t) {
			p.LeftOut = append(p.LeftOut, t.Name())
			continue
		}
		x := Tensor{Name: t.Name(), From: t.DType(), source: t, isPartOrMarker: isPartOrMarker, sourcePosition: uint32(len(p.Tensors))}
		if err := p.decideTensor(ctx, &x, originals[x.Name], shapes[x.Name], &buf); err != nil {
			return err
		}
		p.Tensors = append(p.Tensors, x)
	}
	return nil
}

// decideTensor sets how t is written: its types, shape, scale, size, and the reasons for changes. old is what an earlier
// conversion has noted of t: see restore. plainShape, unless nil, is the shape that t gets if its blocks become plain numbers. It returns a
// *CodesError if codes that cannot be decoded would be re-encoded, or would look like a plain weight in the new file. It also fails if the
// scale cannot be read, or if reencode does. A quantized weight comes here only to be written by its values.
func (p *Plan) decideTensor(ctx context.Context, t *Tensor, old any, plainShape []int, buf *buffers) (err error) {
	weight, isAsked := t.source.Scheme(), p.opts.DType != layout.Invalid
	problem := p.refuseCodes(t.source)
	if problem != nil && p.needsValues() && !p.staysStored(t) {
		return problem
	}
	if t.scale, t.hasScale, err = t.source.Scale(); err != nil {
		return err
	}
	t.restore(old) // after t.hasScale is set, which restore reads
	t.To, t.Shape = t.From, t.FromShape()
	if weight != nil { // t becomes F32, unless reencode chooses another type
		t.Scheme, t.To, t.Reencoded = weight.Scheme, layout.F32, true
		if isAsked = isAsked && !p.opts.keeps(t.Name); !isAsked {
			t.Changed = fmt.Sprintf("%s has no type for codes of %s, the values are the same", p.target.name, t.Scheme)
		}
	}
	if isAsked {
		if err := p.reencode(ctx, t, buf); err != nil {
			return err
		}
	}
	if weight != nil && t.NotReencoded != "" { // t does not stay as it is stored: it is F32 for this reason
		t.Changed, t.NotReencoded = t.NotReencoded, ""
	}
	becomesPlain := t.From.Quantized() && (!t.To.Quantized() || p.target.expands(t.To))
	if n, ok := layout.Elements(plainShape); plainShape != nil && becomesPlain && ok && n == t.source.Elements() {
		t.Shape = slices.Clone(plainShape) // plain numbers have rows of any length
	}
	t.fitTarget(p.target, problem == nil)
	if t.Reencoded && problem != nil { // even if it need not have been: fitTarget makes F32 of what the format lacks
		return problem
	}
	t.Bytes, _ = t.To.Size(t.Shape) // the target's writer refuses what has no size
	return nil
}

// reencode plans to re-encode t to the type that typeFor returns. It changes nothing if the source has that type already. If
// whyNotReencoded returns a reason, or if I8 has no scale for the values, it sets NotReencoded and changes nothing else. For
// I8 it reads the whole tensor to find the scale. For quantized types it sets Weighted. It fails with layout.ErrUnsupported
// for a type that the format lacks. It fails if values cannot be read, or once the context is done. It also fails if
// importance does not fit t.Shape.
func (p *Plan) reencode(ctx context.Context, t *Tensor, buf *buffers) (err error) {
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
		for run, err := range t.source.Values(buf.rows(1)) { // a run fills the whole buffer
			if err := cmp.Or(err, context.Cause(ctx)); err != nil {
				return err
			}
			found.Add(run.Values)
		}
		if scale.Scale, err = found.Scale(); err != nil { // ErrNotFinite is its only error
			t.NotReencoded = "no scale for NaN and infinity"
			return nil
		}
	}
	t.To, t.Reencoded, t.scale, t.hasScale, t.Fallback = d, true, scale, d == layout.I8, fallback
	if d.Quantized() {
		t.Weighted, err = p.opts.Importance.check(t.Name, t.Shape) // the shape may be a restored one
	}
	return err
}

// blocksOf32 are the types that llama.cpp takes in place of others if rows are no multiple of 256.
var blocksOf32 = map[layout.DType]layout.DType{
	layout.Q2_K: layout.Q4_0, layout.Q3_K: layout.Q4_0, layout.IQ4_XS: layout.IQ4_NL,
	layout.Q4_K: layout.Q5_0, layout.Q5_K: layout.Q5_1, layout.Q6_K: layout.Q8_0,
}

// typeFor returns the type to re-encode t to. Options.TypeOf comes first, then the recipe, then Options.DType. If the rows of
// t are no multiple of that type's block, another type may replace it. fallback then says why. Otherwise it is "".
func (p *Plan) typeFor(t *Tensor) (d layout.DType, fallback string) {
	if p.opts.TypeOf != nil {
		d = p.opts.TypeOf(t.Name)
	}
	if d == layout.Invalid && p.resolver != nil {
		d = p.resolver.resolve(t.Name, t.Shape)
	}
	d = cmp.Or(d, p.opts.DType)
	if len(t.Shape) == 0 || t.Shape[len(t.Shape)-1]%d.BlockElems() == 0 {
		return d, ""
	}
	columns := t.Shape[len(t.Shape)-1]
	why := fmt.Sprintf("rows no multiple of %d, as %v wants", d.BlockElems(), d)
	switch of32, ok := blocksOf32[d]; {
	case ok && columns%32 == 0:
		return of32, why
	case ok:
		return layout.F16, why + ", nor of 32"
	case p.resolver != nil:
		return layout.F16, why
	}
	return d, "" // whyNotReencoded finds that d does not fit
}

// whyNotReencoded returns the reason why t stays as it is although the options want it as type d. It returns "" if there is none.
// A tensor stays by request, or if its values cannot be read as float32s, or if its shape does not fit d. Lossy types spare
// norms, biases and tensors of one dimension, unless Options.All is set. In GGUF or with a recipe they also spare matrices that
// llama.cpp leaves alone. isFallback says that typeFor chose d because the requested type does not fit the rows of t. A fallback
// d counts as lossy, even F16, since the requested type is lossy.
func (p *Plan) whyNotReencoded(t *Tensor, d layout.DType, isFallback bool) string {
	from, isWeight := t.source.DType(), t.Scheme != "" // weights of a quantized checkpoint have values in float32, whatever their dtype
	isReal := t.hasScale || from.Kind() == layout.KindFloat || from.Kind() == layout.KindQuantized
	switch {
	case p.staysStored(t):
		return "by request"
	case !isWeight && !dequant.Supported(from):
		return fmt.Sprintf("%v has no values in float32", from)
	case !isWeight && !isReal:
		return fmt.Sprintf("%v without a scale", from)
	}
	if _, err := d.Size(t.Shape); err != nil {
		return err.Error()
	}
	// ggml wants F32 of tensors that it adds to activations or multiplies them with.
	isHalved := p.Format == layout.GGUF && from == layout.F32 && d.BlockBytes() == 2 // F16 or BF16
	isLossy := d == layout.I8 || d.Quantized() || isFallback || isHalved
	if p.opts.All || !isLossy {
		return ""
	}
	followsLlama := p.resolver != nil || p.Format == layout.GGUF
	if why := whyPrecise(t.Name, t.Shape); why != "" || !followsLlama {
		return why
	}
	isGGML := p.model.Format() == layout.GGUF || strings.HasPrefix(t.Name, "blk.") // by its name, as llama.cpp sees it
	switch {
	case containsAny(t.Name, smallMatrices):
		return "small, and left alone by llama.cpp"
	case isGGML && !strings.HasSuffix(t.Name, "weight"):
		return "no weight by its name, and left alone by llama.cpp"
	}
	return ""
}
