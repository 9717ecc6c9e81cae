package convert

import (
	"iter"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// A PartError refuses to re-encode codes: their scheme is not decoded, or their companions are missing or do
// not fit. Their numbers are not weights, and would look like such.
type PartError struct {
	Name  string // the tensor
	DType layout.DType
	Err   error // as [loader.Tensor.Problem] returns it: it names file, tensor and reason
}

func (e *PartError) Error() string { return e.Err.Error() + ": not re-encoded" }

// Unwrap makes it a kind of layout.ErrUnsupported.
func (e *PartError) Unwrap() []error { return []error{layout.ErrUnsupported, e.Err} }

// refuseCodes returns a *PartError if t holds codes that cannot be decoded. With Options.PlainF8 floats of a byte
// or less are no codes.
func (p *Plan) refuseCodes(t loader.Tensor) error {
	w, err := p.lease.Tensor(t.Name())
	if err != nil {
		return err
	}
	d := t.DType()
	isPlain := p.opts.PlainF8 && d.Kind() == layout.KindFloat && d.BlockBytes() <= d.BlockElems()
	if err = w.Problem(); err == nil || isPlain {
		return nil
	}
	return &PartError{t.Name(), d, err}
}

// findWeights sets Plan.Quantized, decodes, undecoded and exempt: which quantized weights stay, and which are decoded.
func (p *Plan) findWeights() {
	for w := range p.lease.Tensors() {
		if !p.opts.selects(w.Name()) {
			continue
		}
		if w.Problem() != nil {
			prefix, isExempt := w.Name()[:strings.LastIndexByte(w.Name(), '.')+1], p.opts.keeps(w.Name())
			if isExempt {
				p.exempt = append(p.exempt, prefix)
			}
			if isExempt || p.opts.DType == layout.Invalid && !p.target.onlyWeights {
				p.undecoded = append(p.undecoded, prefix)
			}
		}
		if parts := w.Parts(); parts != nil && p.decodesWeight(w, parts) {
			p.decodes = true
		} else if parts != nil {
			p.Quantized = append(p.Quantized, newPart(w, parts))
		}
	}
}

// decodesWeight reports whether the values of w are written, not its parts: Options.DType wants it and Options.Keep
// does not, or the new format would take the codes of a part for numbers.
func (p *Plan) decodesWeight(w loader.Tensor, parts []loader.Part) bool {
	return p.target.onlyWeights && parts[0].Tensor.DType() != layout.NVFP4 ||
		p.opts.DType != layout.Invalid && !p.opts.keeps(w.Name()) ||
		slices.ContainsFunc(parts, func(part loader.Part) bool { return p.target.expands(part.Tensor.DType()) })
}

// newPart returns the Part of weight w. A global scale stands for a missing scale.
func newPart(w loader.Tensor, parts []loader.Part) Part {
	of := Part{Scheme: w.Scheme().Scheme, Codes: parts[0].Tensor.Name()}
	for _, p := range parts {
		if p.Role == scheme.Scale || of.Scale == "" && p.Role == scheme.GlobalScale {
			of.Scale = p.Tensor.Name()
		}
	}
	return of
}

// dequantizes reports whether the source has quantized weights and the new model has none.
func (p *Plan) dequantizes() bool { return p.decodes && len(p.Quantized)+len(p.undecoded) == 0 }

// sources yields the tensors that are written, in the order of the files: a quantized weight as one tensor, in the
// place of its codes, if it is decoded, else as its parts. isPart is true for parts, which stay as they are.
func (p *Plan) sources() iter.Seq2[loader.Tensor, bool] {
	return func(yield func(t loader.Tensor, isPart bool) bool) {
		var weight loader.Tensor // the last one
		codes, decodes := "", false
		for t, w := range p.lease.StoredTensors() {
			if !p.opts.selects(w.Name()) {
				continue
			}
			isPart := w.Scheme() != nil && w.Problem() == nil
			if isPart && w != weight {
				parts := w.Parts()
				weight, codes, decodes = w, parts[0].Tensor.Name(), p.decodesWeight(w, parts)
			}
			if isPart && decodes {
				if t.Name() != codes {
					continue
				}
				t, isPart = w, false
			}
			if isMarker(t) && p.decodes {
				if p.dequantizes() && !p.opts.keeps(t.Name()) {
					continue
				}
				isPart = true
			}
			if !yield(t, isPart) {
				return
			}
		}
	}
}

// isMarker reports whether t is ComfyUI's mark of a file of scaled FP8: a tensor called scaled_fp8 of 0 or 2
// elements, whose type is that of the weights.
func isMarker(t loader.Tensor) bool {
	return strings.HasSuffix("."+t.Name(), ".scaled_fp8") && t.Elements() <= 2
}

// isAlias reports whether the bytes of t, a tensor of a model that has files, lie inside another tensor's.
func isAlias(files []loader.FileInfo, t loader.Tensor) bool {
	ix := files[t.File()].Layout.Index()
	i := ix.Find(t.Name())
	return i >= 0 && ix.Tensors[i].Alias
}
