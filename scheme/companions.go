package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// harmless lists the ends of the names of tensors that lie beside a quantized weight and do not change its values. The
// names begin with the weight's, less ".weight". Everything else that begins so is a part, or makes the weight an error.
var harmless = []string{
	".bias", "_bias", // of the layer
	".input_scale", ".input_zero_point", ".input_global_scale", ".input_amax", ".input_quantizer._amax", ".scale_input", // of its input
	".act_scale", ".activation_scale", ".activation_scaling_factor", ".qscale_act", ".weight.input_scale",
	".output_scale", ".output_zero_point", ".scale_output", ".output_quantizer._amax", // of its output
	".q_scale", ".k_scale", ".v_scale", ".k_zero_point", ".v_zero_point", ".kv_scale", ".prob_scale", // of what attention caches
	".e_score_correction_bias", // of a router
	"._extra_state",            // of Transformer Engine
}

// strangers refuses the weights that have a tensor beside them which is neither a part that is known nor harmless: it may
// change their values. IgnorePart leaves out the tensors that it names.
func (f *finder) strangers() {
	if len(f.weights) == 0 {
		return
	}
	for i := range f.tensors {
		if of := f.Of[i]; of != 0 && f.found[f.weights[of-1].found].err == nil || f.source.Ignored(f.tensors[i].Name) {
			continue
		}
		name := f.tensors[i].Name
		w, stem := f.beside(uint32(i))
		if w == nil || f.found[w.found].err != nil || f.codesOf(w) == &f.tensors[i] {
			continue
		}
		layer := bytes.TrimSuffix(stem, weightEnd)
		if !slices.Contains(harmless, string(name[len(layer):])) {
			quoted := layout.Quote(name)
			f.fail(w, unsupported("tensor %s beside the codes is not known and may change their values (--ignore-part %[1]s or Options.IgnorePart decodes without it)", quoted))
		}
	}
}

// namesakes refuses the weights whose names tensors have, and these tensors: nobody knows which of the two is meant.
func (f *finder) namesakes() {
	for i := range len(f.weights) {
		codes := f.codesOf(&f.weights[i])
		for j := range conventions {
			c := &conventions[j]
			if c.form == nil || c.inward || c.codes == c.name || !hasSuffix(codes.Name, c.codes) || !f.mayEnd([]byte(c.name)) {
				continue
			}
			other, ok := f.lookup(codes.Name[:len(codes.Name)-len(c.codes)], c.name)
			if !ok {
				continue
			}
			name := f.tensors[other].Name
			f.fail(&f.weights[i], misfit("the weight has the name of the tensor %s", layout.Quote(name)))
			why := misfit("tensor %s has codes of the same weight", layout.Quote(codes.Name))
			if of := f.Of[other]; of != 0 {
				f.fail(&f.weights[of-1], why)
			} else {
				f.reject(other, why)
			}
		}
	}
}

// beside returns the weight whose name the name of tensor i begins with, and this beginning: the longest that is followed by a
// dot or an underscore. w is nil if there is none, or if a tensor that is not quantized has the longest.
func (f *finder) beside(i uint32) (w *weight, stem []byte) {
	name := f.tensors[i].Name
	for at := len(name) - 1; at > 0; at-- {
		if name[at] != '.' && name[at] != '_' {
			continue
		}
		stem := name[:at:at]
		if name[at] == '.' {
			if own, ok := f.lookup(stem, string(weightEnd)); ok && f.Of[own] == 0 {
				return nil, nil
			}
		}
		for _, end := range f.ends {
			codes, ok := f.lookup(stem, end)
			if ok && f.Of[codes] != 0 {
				if w := &f.weights[f.Of[codes]-1]; f.partsOf(w)[0].Tensor == codes {
					return w, stem
				}
			}
		}
	}
	return nil, nil
}

// noteEnd notes how the names of codes end behind the name of a weight.
func (f *finder) noteEnd(end []byte) {
	if !slices.ContainsFunc(f.ends, func(known string) bool { return known == string(end) }) {
		f.ends = append(f.ends, string(end))
	}
}
