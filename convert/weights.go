package convert

import (
	"iter"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// A CodesError refuses to re-encode codes: their scheme is not decoded, or their companions are missing or do
// not fit. Their numbers are not weights, and would look like such.
type CodesError struct {
	Name  string // the tensor
	DType layout.DType
	Err   error // as [loader.Tensor.Problem] returns it: it names file, tensor and reason
}

// Error returns the message of Err, which names file, tensor and reason.
func (e *CodesError) Error() string { return e.Err.Error() + ": not re-encoded" }

// Unwrap returns layout.ErrUnsupported and the cause, so that errors.Is finds both.
func (e *CodesError) Unwrap() []error { return []error{layout.ErrUnsupported, e.Err} }

// refuseCodes returns a *CodesError if t has quantized codes that cannot be decoded. With Options.PlainF8 floats of 8
// bits or fewer count as plain numbers. It also fails if the model has no tensor of t's name.
func (p *Plan) refuseCodes(t loader.Tensor) error {
	w, err := p.lease.Tensor(t.Name())
	if err != nil {
		return err
	}
	d := t.DType()
	isPlain := p.opts.PlainF8 && d.Kind() == layout.KindFloat && d.BlockBytes() <= d.BlockElems() // 8 bits or fewer
	if err = w.Problem(); err == nil || isPlain {
		return nil
	}
	return &CodesError{t.Name(), d, err}
}

// needsValues reports whether the values of all tensors must be known, apart from tensors that Options.Keep names. Values
// must be known if Options.DType re-encodes tensors, or if the new format's readers would take codes for weights.
func (p *Plan) needsValues() bool {
	return p.opts.DType != layout.Invalid || p.target.readsAllAsWeights
}

// findWeights looks at the tensors that Options.Only selects. It sets p.Quantized to the quantized weights that stay as they
// are stored. It sets p.writesSomeByValues if some quantized weight is written by its values. It adds to p.undecodedPrefixes
// the prefixes of the names of codes that cannot be decoded and stay as they are stored. It adds the prefixes of such codes
// that Options.Keep names to p.exemptPrefixes too.
func (p *Plan) findWeights() {
	for w := range p.lease.Tensors() {
		if !p.opts.selects(w.Name()) {
			continue
		}
		if w.Problem() != nil { // codes that cannot be decoded; prefix ends with the last dot, or is ""
			prefix, isExempt := w.Name()[:strings.LastIndexByte(w.Name(), '.')+1], p.opts.keeps(w.Name())
			if isExempt {
				p.exemptPrefixes = append(p.exemptPrefixes, prefix)
			}
			if isExempt || !p.needsValues() { // else decideTensor fails
				p.undecodedPrefixes = append(p.undecodedPrefixes, prefix)
			}
		}
		if parts := w.Parts(); parts != nil && p.writesWeightByValues(w, parts) {
			p.writesSomeByValues = true
		} else if parts != nil {
			weight := Weight{Scheme: w.Scheme().Scheme, Codes: parts[0].Tensor.Name()}
			for _, part := range parts { // weight.Scale names the scales or, if there are none, the global scale
				if part.Role == scheme.Scale || weight.Scale == "" && part.Role == scheme.GlobalScale {
					weight.Scale = part.Tensor.Name()
				}
			}
			p.Quantized = append(p.Quantized, weight)
		}
	}
}

// writesWeightByValues reports whether the values of the quantized weight w are written, not its parts. The codes are parts[0]. Values are
// written if readers take all tensors for weights, if Options.DType applies to w, or if the format would expand a part's type. Readers of
// GGUF take all tensors for weights. They know the scale beside GGUF's own NVFP4 blocks, which are therefore an exception.
func (p *Plan) writesWeightByValues(w loader.Tensor, parts []loader.Part) bool {
	return p.target.readsAllAsWeights && parts[0].Tensor.DType() != layout.NVFP4 ||
		p.opts.DType != layout.Invalid && !p.opts.keeps(w.Name()) ||
		slices.ContainsFunc(parts, func(part loader.Part) bool { return p.target.expands(part.Tensor.DType()) })
}

// writesAllByValues reports whether the source has quantized weights, and all of them are written by their values: the new model has none.
func (p *Plan) writesAllByValues() bool {
	return p.writesSomeByValues && !p.staysQuantized()
}

// staysQuantized reports whether the new model has quantized weights, or codes that cannot be decoded.
func (p *Plan) staysQuantized() bool { return len(p.Quantized)+len(p.undecodedPrefixes) > 0 }

// sources yields the tensors to write, in the order of the files. A quantized weight that is written by its values comes once,
// in the place of its codes. Other quantized weights come as their parts. isPartOrMarker is true for parts, and false for values and for
// plain tensors: decideTensor copies the bytes of parts. It is true for the marker of scaled FP8 too, if weights stay quantized: the marker
// keeps its type, which is the type of the weights. If no quantized weight stays, the marker is left out, unless Options.Keep names it.
// Options.Only selects parts by the name of their weight.
func (p *Plan) sources() iter.Seq2[loader.Tensor, bool] {
	return func(yield func(t loader.Tensor, isPartOrMarker bool) bool) {
		for t, w := range p.lease.StoredTensors() {
			if !p.opts.selects(w.Name()) {
				continue
			}
			parts := w.Parts()
			isPart := parts != nil
			if isPart && p.writesWeightByValues(w, parts) {
				if t != parts[0].Tensor {
					continue // w comes in the place of its codes
				}
				t, isPart = w, false
			}
			if isMarker(t) && p.writesAllByValues() && !p.opts.keeps(t.Name()) {
				continue // the new file has no scaled FP8 to mark
			}
			if !yield(t, isPart || isMarker(t) && p.staysQuantized()) {
				return
			}
		}
	}
}

// isMarker reports whether t has the name of ComfyUI's marker of a file of scaled FP8, and at most 2 elements. The marker
// has 0 or 2, and the type of the weights.
func isMarker(t loader.Tensor) bool {
	return strings.HasSuffix("."+t.Name(), ".scaled_fp8") && t.Elements() <= 2
}

// isAlias reports whether the bytes of t lie inside another tensor's, by the index of t's file. files are all files of t's
// model. It reports false if the index does not list t.
func isAlias(files []loader.FileInfo, t loader.Tensor) bool {
	ix := files[t.File()].Layout.Index()
	i := ix.Find(t.Name())
	return i >= 0 && ix.Tensors[i].Alias
}
