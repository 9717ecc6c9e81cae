package convert

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader"
)

// Part is a quantized weight that stays as it is stored.
type Part struct {
	Scheme string
	// Codes and Scale name the tensor that holds the codes and the one that scales them.
	Codes, Scale string
}

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

// sources yields the tensors that are written, in the order of the files: a quantized weight as one tensor if it
// gets another encoding, else as the parts that it is stored as. These stay as they are, whatever Options.DType says.
func (p *Plan) sources(lease *loader.Lease) iter.Seq2[loader.Tensor, bool] {
	p.stems = nil
	for w := range lease.Tensors() {
		if !p.opts.writes(w.Name()) {
			continue
		}
		if w.Problem() != nil && p.opts.keeps(w.Name()) {
			p.stems = append(p.stems, w.Name()[:strings.LastIndexByte(w.Name(), '.')+1])
		}
		if list := w.Parts(); list == nil {
		} else if p.decodes(w, list) {
			p.decoded = true
		} else {
			p.Quantized = append(p.Quantized, partOf(w, list))
		}
	}
	return func(yield func(t loader.Tensor, stays bool) bool) {
		var last loader.Tensor // a weight
		codes := ""            // the name of its codes
		decodes := false
		for t, w := range lease.Stored() {
			if !p.opts.writes(w.Name()) {
				continue
			}
			stays := w.Scheme() != nil && w.Problem() == nil
			if stays && w != last {
				list := w.Parts()
				last, codes, decodes = w, list[0].Tensor.Name(), p.decodes(w, list)
			}
			if stays && decodes {
				if t.Name() != codes {
					continue
				}
				t, stays = w, false
			}
			if !yield(t, stays) {
				return
			}
		}
	}
}

// decodes reports whether the values of w are written, not its parts: Options.DType wants it, or the new format
// would take the codes of a part for numbers.
func (p *Plan) decodes(w loader.Tensor, parts []loader.Part) bool {
	to := p.target
	if to.weights && parts[0].Tensor.DType() != layout.NVFP4 {
		return true
	}
	if p.opts.DType != layout.Invalid {
		return !p.opts.keeps(w.Name())
	}
	return slices.ContainsFunc(parts, func(part loader.Part) bool { return to.expands(part.Tensor.DType()) })
}

// expands reports whether elements of type d become F32 in the format because it has no such type.
func (to *target) expands(d layout.DType) bool {
	return !to.holds(d) && (d.Quantized() || to.weights && d.Kind() == layout.KindFloat) && dequant.Supported(d)
}

// unquantizes reports whether the source has quantized weights and the new model none.
func (p *Plan) unquantizes() bool { return p.decoded && len(p.Quantized) == 0 }

func partOf(w loader.Tensor, parts []loader.Part) Part {
	of := Part{Scheme: w.Scheme().Scheme, Codes: parts[0].Tensor.Name()}
	for _, p := range parts {
		if p.Role == scheme.Scale || of.Scale == "" && p.Role == scheme.GlobalScale {
			of.Scale = p.Tensor.Name()
		}
	}
	return of
}

// keeps reports whether a tensor is copied although Options.DType would re-encode it: by request, or as a part of
// a weight that is. Beside codes that are kept and cannot be decoded, all names that begin alike are.
func (p *Plan) keeps(t *Tensor) bool {
	return t.stays || p.opts.keeps(t.Name) || slices.ContainsFunc(p.stems, func(stem string) bool { return strings.HasPrefix(t.Name, stem) })
}

// refuse returns a *PartError if t holds codes that cannot be decoded.
func (p *Plan) refuse(t loader.Tensor) error {
	w, err := p.lease.Tensor(t.Name())
	if err != nil {
		return err
	}
	if err = w.Problem(); err == nil || p.opts.PlainF8 && t.DType().Kind() == layout.KindFloat {
		return nil
	}
	return &PartError{t.Name(), t.DType(), err}
}

func (opts *Options) writes(name string) bool { return opts.Only == nil || opts.Only(name) }

func (opts *Options) keeps(name string) bool { return opts.Keep != nil && opts.Keep(name) }

// decideWeight plans to write the values of a quantized weight: as Options.DType says, and as F32 if a type of
// blocks does not fit or would spoil it.
func (t *Tensor) decideWeight(ctx context.Context, p *Plan, buf *buffers) error {
	t.Scheme = t.source.Scheme().Scheme
	t.To, t.Shape, t.Reencoded = layout.F32, t.FromShape(), true
	if p.opts.DType == layout.Invalid {
		t.Changed = fmt.Sprintf("%s has no type for codes of %s, the values are the same", p.target.name, t.Scheme)
	} else if err := t.requantize(ctx, p, buf); err != nil {
		return err
	}
	if t.Kept != "" { // F32 then
		t.Changed, t.Kept = t.Kept, ""
	}
	t.fold(p.target.dims)
	t.Bytes, _ = t.To.Size(t.Shape)
	return nil
}

// withoutMethod returns metadata that no longer say how the weights were quantized: the keys of transformers, MLX
// and ModelOpt, at the top, in the architecture and in the configuration of a text model.
func withoutMethod(md layout.Metadata) layout.Metadata {
	out := make(layout.Metadata, 0, len(md))
	for key, value := range md.All() {
		inner, isObject := value.(layout.Metadata)
		switch {
		case key == "quantization_config", key == "compression_config", key == "expert_dtype":
			continue
		case key == "quantization" && isObject:
			// APR2 keeps its own keys in an object of the same name.
			var own layout.Metadata
			for k, v := range inner.All() {
				if slices.Contains([]string{"method", "bits_per_weight", "scales", "zero_points"}, k) {
					own = append(own, layout.Entry{Key: k, Value: v})
				}
			}
			if len(own) == 0 {
				continue
			}
			value = own
		case isObject && (key == "architecture" || key == "text_config"):
			value = withoutMethod(inner)
		}
		out = append(out, layout.Entry{Key: key, Value: value})
	}
	return out
}
