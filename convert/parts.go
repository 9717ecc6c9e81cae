package convert

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader"
)

// PartOf finds the quantized weight of m that the tensor called name is part of, as scheme.Find does.
func PartOf(m *loader.Model, name string) (scheme.Part, bool) {
	return scheme.Find(name, func(name string) (layout.DType, []int, bool) {
		t, err := m.Tensor(name)
		if err != nil {
			return layout.Invalid, nil, false
		}
		return t.DType(), t.Shape(), true
	})
}

// A PartError refuses to re-encode a part of a quantized weight: its numbers are not weights, and
// would look like such.
type PartError struct {
	Path string // the file
	Name string // the tensor
	scheme.Part
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
	for t := range lease.Tensors() {
		part, err := p.part(t, p.opts.DType != layout.Invalid && !p.opts.keeps(t.Name()))
		if err != nil {
			return err
		}
		if part.Scale != "" && part.Codes == t.Name() {
			p.Quantized = append(p.Quantized, part)
		}
	}
	return nil
}

// part finds the quantized weight that t belongs to. It is an error if t is to be re-encoded.
func (p *Plan) part(t loader.Tensor, reencoded bool) (scheme.Part, error) {
	part, ok := PartOf(p.model, t.Name())
	if ok && reencoded && !(part.Scale == "" && p.opts.PlainF8) {
		return part, &PartError{p.model.Files()[t.File()].Path, t.Name(), part, t.DType()}
	}
	return part, nil
}

func (opts *Options) keeps(name string) bool { return opts.Keep != nil && opts.Keep(name) }
