package scheme

import (
	"bytes"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// match is a pattern that the names and types of a weight's parts have, and what else tells its form.
type match struct {
	pattern  *pattern
	end      uint8    // of the scale's name, in pattern.scales
	layer    []byte   // the path of the layer
	contents [][]byte // of the parts that pattern.wants, in their order
}

// weight is a weight whose shape and form are being found.
type weight struct {
	*Table
	*Form
	match
	parts []Part
	full  []uint64 // the weight's shape
	sizes []uint64 // memory for shapes
	used  uint16   // a bit for each role of parts that were asked for
	params
}

// maxDim bounds the dimensions of parts, so that a few of them may be multiplied.
const maxDim = 1 << 48

// find sets w.Form and returns the weight's shape. It fails if parts do not fit each other or the configuration, if
// a part has no use, or if sizes are too large.
func (w *weight) find() (shape []int, err error) {
	for _, p := range w.parts {
		for _, n := range w.tensors[p.Tensor].Shape {
			if uint64(n) > maxDim {
				return nil, misfit("tensor %s has a dimension of %d", w.name(p.Role), n)
			}
		}
	}
	w.Form = &Form{Scheme: w.pattern.scheme}
	if err := w.takeDescription(); err != nil {
		return nil, err
	}
	s, err := w.conf.scheme(w.pattern.of).form(w)
	if err != nil {
		return nil, err
	}
	if err := w.recognize(); err != nil {
		return nil, err
	}
	for _, p := range w.parts {
		// A part that form has not asked for is an error, unless the weight has no elements.
		if !slices.Contains(w.full, 0) && w.used>>p.Role&1 == 0 && p.Role != InputScale && p.Role != Setting {
			return nil, misfit("%v %s beside codes of %s, which have none", p.Role, w.name(p.Role), w.Scheme)
		}
	}
	if n, ok := elements(w.full); !ok || n > 1<<60 {
		return nil, misfit("shape %v has too many elements", w.full)
	}
	w.Form.scheme = s
	if err := w.source.Decodable(w.Form); err != nil {
		return nil, err
	}
	codes := w.part(Codes)
	if slices.Equal(w.full, w.dims(codes)) {
		return codes.Shape, nil
	}
	for _, n := range w.full {
		if n > math.MaxInt {
			return nil, misfit("shape %v does not fit this machine", w.full)
		}
		shape = append(shape, int(n))
	}
	return shape, nil
}

// dims returns the shape of a tensor in 64 bits. It lies in w.sizes, and the caller may change it.
func (w *weight) dims(t *layout.Tensor) []uint64 {
	from := len(w.sizes)
	for _, n := range t.Shape {
		w.sizes = append(w.sizes, uint64(n))
	}
	return w.sizes[from:len(w.sizes):len(w.sizes)]
}

// part returns the tensor that has a role, or nil, and notes in w.used that it was asked for.
func (w *weight) part(r Role) *layout.Tensor {
	w.used |= 1 << r
	for _, p := range w.parts {
		if p.Role == r {
			return &w.tensors[p.Tensor]
		}
	}
	return nil
}

// name returns the quoted name of the part that has a role, for errors, or "no" and the role without one.
func (w *weight) name(r Role) string {
	if t := w.part(r); t != nil {
		return layout.Quote(t.Name)
	}
	return "no " + r.String()
}

// elementsOf returns the number of elements of a part, 0 without it.
func (w *weight) elementsOf(r Role) uint64 {
	t := w.part(r)
	if t == nil {
		return 0
	}
	n, _ := elements(w.dims(t))
	return n
}

// content returns the bytes of the part that has a role. It is nil without one, or if the pattern does not want its
// content.
func (w *weight) content(r Role) []byte {
	for _, p := range w.parts {
		if p.Role == r {
			return w.contentOf(p.Tensor)
		}
	}
	return nil
}

// contentOf returns the bytes of a tensor, or nil. w.contents has those of the parts whose content the pattern
// wants, in the order of the parts.
func (w *weight) contentOf(tensor uint32) []byte {
	i := 0
	for _, p := range w.parts {
		switch {
		case !w.pattern.wants(p):
		case p.Tensor == tensor:
			return w.contents[i]
		default:
			i++
		}
	}
	return nil
}

// shape finds shape and form of e, and notes them or an error. It takes those of an earlier weight that is alike,
// unless the configuration may name the layer of either.
func (t *Table) shape(e *entry, m *match) {
	parts := t.partsOf(e)
	isShared := len(t.conf.groups) <= 1 && len(t.conf.layers) == 0 && len(t.conf.dynamic) == 0 // else one may name e's layer
	if isShared {
		if found, ok := t.forms.find(t, m, parts); ok {
			e.result = found
			return
		}
	}
	p := t.conf.ask(m.layer).own
	if p.err != nil {
		t.fail(e, p.err)
		return
	}
	w := &t.finding
	*w = weight{Table: t, match: *m, parts: parts, params: p, sizes: w.sizes[:0]}
	shape, err := w.find()
	if err != nil {
		t.fail(e, err)
		return
	}
	e.result = t.note(result{shape: shape, form: w.Form})
	if isShared {
		t.forms.add(e.result, m, parts, p)
	}
}

// formCache has the forms that were found last. Most layers of a model are alike, and opening a checkpoint takes a third
// longer if each has its form found anew.
type formCache struct {
	entries [8]cachedForm
	oldest  int
}

// A cachedForm is a form that was found, and all that decided about it.
type cachedForm struct {
	result uint32
	parts  []Part
	match
	params
}

// find returns the result of an earlier weight that differs from this one only in its name. ok is false without one.
func (c *formCache) find(t *Table, m *match, parts []Part) (result uint32, ok bool) {
	for i := range c.entries { // if there are overrides, the parameters of both layers must be the same too
		f := &c.entries[i]
		if f.pattern == m.pattern && f.end == m.end && (len(t.conf.over) == 0 || f.params == t.conf.ask(m.layer).own) && t.alike(parts, f.parts, m.pattern) &&
			slices.EqualFunc(m.contents, f.contents, bytes.Equal) {
			return f.result, true
		}
	}
	return 0, false
}

// add adds a form in the place of the oldest.
func (c *formCache) add(result uint32, m *match, parts []Part, p params) {
	f := &c.entries[c.oldest%len(c.entries)]
	c.oldest++
	contents := f.contents[:0]
	for _, b := range m.contents {
		contents = append(contents, bytes.Clone(b))
	}
	*f = cachedForm{result, parts, *m, p}
	f.contents = contents
}

// alike reports whether the parts of two weights of pattern p have the same roles, types and shapes. The names of
// parts whose contents decide must end with the same eight bytes too.
func (t *Table) alike(a, b []Part, p *pattern) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &t.tensors[a[i].Tensor], &t.tensors[b[i].Tensor]
		if a[i].Role != b[i].Role || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || p.wants(a[i]) && lastBytes(x.Name) != lastBytes(y.Name) {
			return false
		}
	}
	return true
}
