package convert

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader"
)

// A Part is a tensor's place in a quantized weight.
type Part struct {
	Scheme string
	// Codes and Scale name the tensor that holds the codes and the one that scales them. Scale is empty
	// for codes that have no values: see [loader.Tensor.Problem].
	Codes, Scale string
}

// partOf returns the place of the stored tensor called name in the weight w. ok is false for another
// tensor.
func partOf(w loader.Tensor) (part Part, ok bool) {
	if w.Problem() != nil {
		return Part{Codes: w.Name()}, true
	}
	parts := w.Parts()
	if parts == nil {
		return part, false
	}
	part = Part{Scheme: w.Scheme().Scheme, Codes: parts[0].Tensor.Name()}
	for _, p := range parts {
		if p.Role == scheme.Scale || part.Scale == "" && p.Role == scheme.GlobalScale {
			part.Scale = p.Tensor.Name()
		}
	}
	return part, true
}

// PartOf finds the quantized weight of m whose codes are called name.
func PartOf(m *loader.Model, name string) (Part, bool) {
	for t := range m.Tensors() {
		if part, ok := partOf(t); ok && part.Codes == name {
			return part, true
		}
	}
	return Part{}, false
}

// A PartError refuses to re-encode a part of a quantized weight: its numbers are not weights, and
// would look like such.
type PartError struct {
	Path string // the file
	Name string // the tensor
	Part
	DType layout.DType
}

func (e *PartError) Error() string {
	var what string
	why := "its numbers are not weights"
	switch {
	case e.Scale == "":
		what, why = fmt.Sprintf("%v without a scale", e.DType), "its numbers may be codes, not weights"
	case e.Name == e.Scale:
		what = fmt.Sprintf("scale of the codes in %q (%s)", e.Codes, e.Scheme)
	case e.Name == e.Codes:
		what = fmt.Sprintf("%v codes scaled by %q (%s)", e.DType, e.Scale, e.Scheme)
	default:
		what = fmt.Sprintf("belongs to the codes in %q, scaled by %q (%s)", e.Codes, e.Scale, e.Scheme)
	}
	return fmt.Sprintf("%s: tensor %q: %s: not re-encoded, %s", e.Path, e.Name, what, why)
}

// Unwrap makes it a kind of layout.ErrUnsupported.
func (e *PartError) Unwrap() error { return layout.ErrUnsupported }

// findParts lists the quantized weights before anything is read. Options.DType is an error for all of
// their parts that Options.Keep does not name.
func (p *Plan) findParts(lease *loader.Lease) error {
	p.places = make(map[string]Part)
	for w := range lease.Tensors() {
		part, ok := partOf(w)
		if !ok {
			continue
		}
		p.places[part.Codes] = part
		for _, t := range w.Parts() {
			p.places[t.Tensor.Name()] = part
		}
		if part.Scale != "" {
			p.Quantized = append(p.Quantized, part)
		}
	}
	for t := range lease.Stored() {
		if _, err := p.part(t, p.opts.DType != layout.Invalid && !p.opts.keeps(t.Name())); err != nil {
			return err
		}
	}
	return nil
}

// part finds the quantized weight that t belongs to. It is an error if t is to be re-encoded.
func (p *Plan) part(t loader.Tensor, reencoded bool) (Part, error) {
	part, ok := p.places[t.Name()]
	if ok && reencoded && !(part.Scale == "" && p.opts.PlainF8 && t.DType().Kind() == layout.KindFloat) {
		return part, &PartError{p.model.Files()[t.File()].Path, t.Name(), part, t.DType()}
	}
	return part, nil
}

func (opts *Options) keeps(name string) bool { return opts.Keep != nil && opts.Keep(name) }
