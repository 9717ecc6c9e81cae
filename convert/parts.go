package convert

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
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
	p.stems, p.undecoded = nil, nil
	for w := range lease.Tensors() {
		if !p.opts.writes(w.Name()) {
			continue
		}
		if w.Problem() != nil {
			stem, keeps := w.Name()[:strings.LastIndexByte(w.Name(), '.')+1], p.opts.keeps(w.Name())
			if keeps {
				p.stems = append(p.stems, stem)
			}
			if keeps || p.opts.DType == layout.Invalid && !p.target.weights {
				p.undecoded = append(p.undecoded, stem)
			}
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
		for t, w := range lease.StoredTensors() {
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
			if isMarker(t) && p.decoded {
				if p.unquantizes() && !p.opts.keeps(t.Name()) {
					continue
				}
				stays = true
			}
			if !yield(t, stays) {
				return
			}
		}
	}
}

// isMarker reports whether t is ComfyUI's mark of a file of scaled FP8: a tensor called scaled_fp8 of 0 or 2 elements, whose type
// says that of the weights.
func isMarker(t loader.Tensor) bool {
	return strings.HasSuffix("."+t.Name(), ".scaled_fp8") && t.Elements() <= 2
}

// decodes reports whether the values of w are written, not its parts: Options.DType wants it and Options.Keep does not, or
// the new format would take the codes of a part for numbers.
func (p *Plan) decodes(w loader.Tensor, parts []loader.Part) bool {
	to := p.target
	if to.weights && parts[0].Tensor.DType() != layout.NVFP4 {
		return true
	}
	if p.opts.DType != layout.Invalid && !p.opts.keeps(w.Name()) {
		return true
	}
	return slices.ContainsFunc(parts, func(part loader.Part) bool { return to.expands(part.Tensor.DType()) })
}

// expands reports whether elements of type d become F32 in the format because it has no such type. F8_E8M0 is one of
// scales, which stay beside their codes if these do.
func (to *target) expands(d layout.DType) bool {
	floats := d.Kind() == layout.KindFloat && (to.weights || d != layout.F8_E8M0)
	return !to.holds(d) && (d.Quantized() || floats) && dequant.Supported(d)
}

// unquantizes reports whether the source has quantized weights and the new model none.
func (p *Plan) unquantizes() bool { return p.decoded && len(p.Quantized)+len(p.undecoded) == 0 }

// carryMethod enters what the files beside the model say about its quantization, unless Options.Config says it.
// Otherwise a reader of the new file would have to guess.
func (p *Plan) carryMethod() error {
	said, problem := p.model.Quantization()
	if problem != nil && saidIn(p.opts.Config).Says() { // by the caller, who knows better
		return nil
	}
	if said != nil && !saidIn(p.Metadata).Says() {
		MergeConfig(&p.Metadata, layout.Metadata{{Key: "quantization_config", Value: said}})
	}
	if problem != nil && saidIn(p.Metadata).Err == nil {
		return fmt.Errorf("%w; the new file would be read without a configuration: mend that of the source, or give one to convert --metadata", problem)
	}
	return nil
}

// saidIn reads what metadata say about quantization.
func saidIn(md layout.Metadata) *scheme.Config {
	return scheme.ReadConfig(object(md, "architecture"), md)
}

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
// a weight that is. Beside undecoded codes that stay, all tensors whose names begin alike stay too.
func (p *Plan) keeps(t *Tensor) bool {
	return t.stays || p.opts.keeps(t.Name) || slices.ContainsFunc(p.stems, func(stem string) bool { return strings.HasPrefix(t.Name, stem) })
}

// refuse returns a *PartError if t holds codes that cannot be decoded.
func (p *Plan) refuse(t loader.Tensor) error {
	w, err := p.lease.Tensor(t.Name())
	if err != nil {
		return err
	}
	d := t.DType()
	if err = w.Problem(); err == nil || p.opts.PlainF8 && d.Kind() == layout.KindFloat && d.BlockBytes() <= d.BlockElems() {
		return nil
	}
	return &PartError{t.Name(), d, err}
}

func (opts *Options) writes(name string) bool { return opts.Only == nil || opts.Only(name) }

func (opts *Options) keeps(name string) bool { return opts.Keep != nil && opts.Keep(name) }

// decideWeight plans to write the values of a quantized weight: as Options.DType says, and as F32 if a type of
// blocks does not fit or would spoil it.
func (t *Tensor) decideWeight(ctx context.Context, p *Plan, buf *buffers) error {
	t.Scheme = t.source.Scheme().Scheme
	t.To, t.Shape, t.Reencoded = layout.F32, t.FromShape(), true
	if p.opts.DType == layout.Invalid || p.opts.keeps(t.Name) {
		t.Changed = fmt.Sprintf("%s has no type for codes of %s, the values are the same", p.target.name, t.Scheme)
	} else if err := t.requantize(ctx, p, buf); err != nil {
		return err
	}
	if t.NotReencoded != "" { // F32 then
		t.Changed, t.NotReencoded = t.NotReencoded, ""
	}
	t.fold(p.target)
	t.Bytes, _ = t.To.Size(t.Shape)
	return nil
}

// withoutMethod returns metadata without the keys by which transformers, MLX, ModelOpt, AutoGPTQ and Ollama say how weights were quantized.
// They stand at the top, in the architecture, in the configuration of a text model and among those of a SafeTensors file.
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
		case isObject && key == layout.SafeTensors.String():
			value = slices.DeleteFunc(withoutMethod(inner), func(e layout.Entry) bool {
				return scheme.IsOllamas(e.Key) || strings.HasPrefix(e.Key, "gptq_") // AutoGPTQ's gptq_bits and the like
			})
		}
		out = append(out, layout.Entry{Key: key, Value: value})
	}
	return out
}

// describeLayers leaves only those of ComfyUI's descriptions whose weights stay quantized.
func (p *Plan) describeLayers() {
	own := object(p.Metadata, layout.SafeTensors.String())
	text := stringAt(own, scheme.Layers)
	if text == "" || !p.decoded && p.opts.Only == nil {
		return
	}
	stays := make(map[string]bool) // also by the ends of names: programs strip prefixes
	add := func(layer string) {
		for ok := true; ok; _, layer, ok = strings.Cut(layer, ".") {
			stays[layer] = true
		}
	}
	for _, part := range p.Quantized {
		add(strings.TrimSuffix(part.Codes, ".weight"))
	}
	for _, stem := range p.undecoded {
		add(strings.TrimSuffix(stem, "."))
	}
	v, err := parseJSON(text)
	if err != nil {
		return // as it is in the source
	}
	md, _ := v.(layout.Metadata)
	layers := slices.DeleteFunc(slices.Clone(object(md, "layers")), func(e layout.Entry) bool { return !stays[e.Key] })
	own, md = slices.Clone(own), slices.Clone(md)
	md.Set("layers", layers)
	if b, err := layout.EncodeJSON(md); err == nil {
		own.Set(scheme.Layers, string(b))
	}
	if len(layers) == 0 {
		own = without(own, scheme.Layers)
	}
	setObject(&p.Metadata, layout.SafeTensors.String(), own)
}
