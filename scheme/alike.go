package scheme

import "encoding/binary"

// findForm sets shape and form of the i-th weight, or its error if its parameters have one or findShape fails. It skips a weight that
// has an error. It copies shape and form from an earlier weight with the same description, if there is one. memory is reused between
// calls. contents has, by tensor, the bytes of parts whose contents tell a shape.
func (f *finder) findForm(memory *weight, i int, contents map[uint32][]byte) {
	w, m := &f.weights[i], f.matches[i]
	if w.Err != nil {
		return
	}
	p := f.config.paramsOf(m.layerPath)
	if w.Err = p.err; w.Err != nil {
		return
	}
	// A configuration of these kinds may name this layer alone, so that no other weight has its form.
	mayNameLayer := len(f.config.configGroups) > 1 || len(f.config.comfyLayers) > 0 || len(f.config.originallyE8M0) > 0
	if !mayNameLayer {
		f.describe(w.Parts, m.layerPath, contents)
		if known, ok := f.forms[string(f.description)]; ok && known.pattern == m.pattern && known.params == p {
			w.Shape, w.Form = known.shape, known.form
			return
		}
	}
	*memory = weight{finder: f, match: m, params: p, groupParams: f.config.groupParamsOf(m.layerPath), parts: w.Parts, contents: contents, dimsMemory: memory.dimsMemory[:0]}
	if w.Shape, w.Err = memory.findShape(); w.Err != nil {
		return
	}
	w.Form = memory.Form
	if !mayNameLayer {
		if len(f.forms) == maxForms {
			clear(f.forms)
		}
		f.forms[string(f.description)] = knownForm{m.pattern, p, w.Shape, w.Form}
	}
}

// knownForm is the form of all weights whose parts have one description, and what else decided about it. Most layers of a
// model are alike: a checkpoint opens twice as fast if they share their forms.
type knownForm struct {
	pattern *pattern
	params  params
	shape   []int
	form    *Form
}

// maxForms is the number of forms that are remembered.
const maxForms = 64

// describe sets f.description to all that may decide about a weight's form: roles, ends of names behind the layer's path, types, shapes
// and contents of its parts. Weights with equal descriptions, patterns and parameters have equal forms.
func (f *finder) describe(parts []Part, layer []byte, contents map[uint32][]byte) {
	b := f.description[:0]
	for _, p := range parts {
		t, content := &f.tensors[p.Tensor], contents[p.Tensor]
		end := t.Name[len(layer):]
		b = binary.AppendUvarint(append(b, byte(p.Role), byte(t.DType)), uint64(len(end)))
		b = binary.AppendUvarint(append(b, end...), uint64(len(content)))
		b = binary.AppendUvarint(append(b, content...), uint64(len(t.Shape)))
		for _, n := range t.Shape {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	f.description = b
}
