package scheme

import (
	"cmp"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// match is the pattern that the names and types of a weight's parts fit, and the path of the weight's layer.
type match struct {
	pattern   *pattern
	layerPath []byte
}

// weight is a weight whose shape and form are being found.
type weight struct {
	*finder
	Weight // with Name and Parts; Form is set meanwhile
	match
	params               // of the layer
	groupParams []params // of the configuration's groups that may have the layer; nil without groups
	shape       []uint64 // the weight's shape
	rolesAsked  uint16   // a bit for each role of parts that were asked for
}

// findForm sets Shape and Form of the i-th weight. It sets Err instead if the parameters of its layer have an error, or if findShape fails.
// It skips a weight that has an error already. It takes shape and form of a weight that is known to have the same, if there is one.
func (f *finder) findForm(i int) {
	w, m := &f.weights[i], f.matches[i]
	if w.Err != nil {
		return
	}
	p := f.config.paramsOf(m.layerPath) // addMatch has loaded the configuration
	if w.Err = p.err; w.Err != nil {
		return
	}
	sharesForm := f.sharesForms()
	if sharesForm {
		f.describe(w.Parts, m.layerPath)
		if known, ok := f.forms[formKey{m.pattern, p, string(f.description)}]; ok {
			w.Shape, w.Form = f.weights[known].Shape, f.weights[known].Form
			return
		}
	}
	found := weight{finder: f, Weight: *w, match: m, params: p, groupParams: f.config.groupParamsOf(m.layerPath)}
	if w.Shape, w.Err = found.findShape(); w.Err != nil {
		return
	}
	w.Form = found.Form
	if sharesForm {
		f.rememberForm(i, formKey{m.pattern, p, string(f.description)})
	}
}

// maxDim bounds the dimensions of parts, so that a few of them may be multiplied.
const maxDim = 1 << 48

// findShape returns the shape of the weight's values, and sets w.Form to how its codes become values. The weight's scheme
// finds both. It fails if the scheme does, or if checkWriter or the source refuses the form. It fails if a dimension or the
// number of elements is too large, or if a required part is missing. Every part must be used: it fails if neither the scheme
// nor applyComfyDescription has asked w.part for the part. Input scales, settings and parts of a weight without elements may be unused.
func (w *weight) findShape() (shape []int, err error) {
	for _, p := range w.Parts {
		for _, n := range w.tensors[p.Tensor].Shape {
			if uint64(n) > maxDim {
				return nil, invalidf("tensor %s has a dimension of %d", w.quotedName(p.Role), n)
			}
		}
	}
	w.Form = &Form{Scheme: w.pattern.schemeName}
	if err := w.applyComfyDescription(); err != nil {
		return nil, err
	}
	for _, r := range w.pattern.required {
		if w.part(r) == nil {
			named := slices.IndexFunc(w.pattern.companions, func(c companion) bool { return c.role == r })
			return nil, invalidf("codes of %s without their %v (%s)", w.Scheme, r, w.pattern.companions[named].end)
		}
	}
	if scale, ok := w.Part(Scale); ok {
		w.scaleType = w.tensors[scale].DType
	}
	if err := cmp.Or(w.pattern.setForm(w), w.checkWriter()); err != nil {
		return nil, err
	}
	for _, p := range w.Parts {
		mayBeUnasked := p.Role == InputScale || p.Role == Setting // not of the values, or read by its name
		if wasAsked := w.rolesAsked>>p.Role&1 != 0; !wasAsked && !mayBeUnasked && !slices.Contains(w.shape, 0) {
			return nil, invalidf("%v %s beside codes of %s, which have none", p.Role, w.quotedName(p.Role), w.Scheme)
		}
	}
	if n, ok := elements(w.shape); !ok || n > 1<<60 {
		return nil, invalidf("shape %v has too many elements", w.shape)
	}
	if err := w.source.Decodable(w.Form); err != nil {
		return nil, err
	}
	codes := w.part(Codes)
	if slices.Equal(w.shape, w.dims(codes)) {
		return codes.Shape, nil
	}
	for _, n := range w.shape {
		if n > math.MaxInt {
			return nil, invalidf("shape %v does not fit this machine", w.shape)
		}
		shape = append(shape, int(n))
	}
	return shape, nil
}

// dims returns a copy of the dimensions of t as uint64s.
func (w *weight) dims(t *layout.Tensor) []uint64 {
	dims := make([]uint64, len(t.Shape))
	for i, n := range t.Shape {
		dims[i] = uint64(n)
	}
	return dims
}

// part returns the stored tensor that has a role in the weight, such as its scales, or nil if none has. It notes in
// w.rolesAsked that the role was asked for: findShape refuses weights with parts that nobody asked for.
func (w *weight) part(r Role) *layout.Tensor {
	w.rolesAsked |= 1 << r
	if tensor, ok := w.Part(r); ok {
		return &w.tensors[tensor]
	}
	return nil
}

// quotedName returns the quoted name of the tensor that has a role in the weight, for errors. If none has, it returns "no" and the role.
func (w *weight) quotedName(r Role) string {
	if t := w.part(r); t != nil {
		return layout.Quote(t.Name)
	}
	return "no " + r.String()
}

// elementsOf returns how many elements the weight's tensor with role r has, or 0 if there is no such tensor.
func (w *weight) elementsOf(r Role) (n uint64) {
	if t := w.part(r); t != nil {
		n, _ = elements(w.dims(t)) // a stored tensor never has 2^64
	}
	return n
}

// content returns the bytes of the part that has role r in the weight. r must be one of contentRoles, and the weight must have the part.
func (w *weight) content(r Role) []byte {
	tensor, _ := w.Part(r)
	return w.contents[tensor]
}

// parseContent parses the bytes of the weight's part with role r as JSON. Errors call these bytes by the name in what. It fails for
// malformed JSON, for JSON beyond w.limits, and for more than 8 levels of nesting: no scheme reads more than two levels.
func (w *weight) parseContent(r Role, what string) (layout.Metadata, error) {
	lim := w.limits
	lim.Depth = min(lim.Depth, 8)
	return jsontext.Parse(w.content(r), layout.Unknown, 0, what, lim)
}
