package scheme

import "encoding/binary"

// Most layers of a model are alike: a checkpoint opens about twice as fast if they share their forms. Without this file findForm finds the
// form of every weight by itself, and TestSharedForms compares the two.

// formKey decides about the form of a weight.
type formKey struct {
	pattern     *pattern
	params      params
	description string // by finder.describe
}

// maxForms is how many forms are remembered.
const maxForms = 64

// findsEachForm is true only while a test finds each form by itself.
var findsEachForm = false

// sharesForms reports whether weights of one formKey have one form. It reports false if the configuration may name single layers: two such
// layers may have the same key and different forms.
func (f *finder) sharesForms() bool {
	mayNameLayer := len(f.config.configGroups) > 1 || len(f.config.comfyLayers) > 0 || len(f.config.originallyE8M0) > 0
	return !mayNameLayer && !findsEachForm
}

// rememberForm notes that the i-th weight has the form of key. It forgets all others once they are maxForms.
func (f *finder) rememberForm(i int, key formKey) {
	if len(f.forms) == maxForms {
		clear(f.forms)
	}
	f.forms[key] = i
}

// describe sets f.description to what formKey needs of a weight's parts: roles, types, ends of names, contents and shapes. The names of
// all parts begin with layer.
func (f *finder) describe(parts []Part, layer []byte) {
	b := f.description[:0]
	for _, p := range parts {
		t, content := &f.tensors[p.Tensor], f.contents[p.Tensor]
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
