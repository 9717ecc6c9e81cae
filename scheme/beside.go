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

// checkCompanions gives an error to the weights that have an unknown tensor beside them, neither a part nor
// harmless: it may change their values. IgnorePart leaves out the tensors that it names.
func (f *finder) checkCompanions() {
	if len(f.entries) == 0 {
		return
	}
	for i := range f.tensors {
		if of := f.Of[i]; of != 0 && f.Err(int(of-1)) == nil || f.source.Ignored(f.tensors[i].Name) {
			continue
		}
		name := f.tensors[i].Name
		e, stem := f.beside(uint32(i))
		if e == nil || f.errOf(e) != nil || f.codesOf(e) == &f.tensors[i] {
			continue
		}
		layer := bytes.TrimSuffix(stem, []byte(weightEnd))
		if !slices.Contains(harmless, string(name[len(layer):])) {
			f.fail(e, unsupported("tensor %s beside the codes is not known and may change their values (--ignore-part %[1]s or Options.IgnorePart decodes without it)", layout.Quote(name)))
		}
	}
}

// checkNames gives an error to weights that have the name of a stored tensor, and refuses this tensor too: it is not
// known which of the two is meant.
func (f *finder) checkNames() {
	var ends [][2]string // of the codes' name and of the weight's
	for _, p := range patterns {
		if pair := [2]string{p.codes, p.name}; p.refused == nil && !p.inward && p.codes != p.name && f.mayEnd(p.name) && !slices.Contains(ends, pair) {
			ends = append(ends, pair)
		}
	}
	for i := range len(f.entries) {
		codes := f.codesOf(&f.entries[i])
		for _, pair := range ends {
			if !hasSuffix(codes.Name, pair[0]) {
				continue
			}
			other, ok := f.lookupEnd(codes.Name[:len(codes.Name)-len(pair[0])], pair[1])
			if !ok {
				continue
			}
			f.fail(&f.entries[i], misfit("the weight has the name of the tensor %s", layout.Quote(f.tensors[other].Name)))
			why := misfit("tensor %s has codes of the same weight", layout.Quote(codes.Name))
			if of := f.Of[other]; of != 0 {
				f.fail(&f.entries[of-1], why)
			} else {
				f.reject(other, why)
			}
		}
	}
}

// beside returns the weight that the i-th tensor lies beside, and the stem that both names have: the longest one
// before a dot or an underscore. e is nil without one, or if a tensor that is not quantized has this stem.
func (f *finder) beside(i uint32) (e *entry, stem []byte) {
	name := f.tensors[i].Name
	for at := len(name) - 1; at > 0; at-- {
		if name[at] != '.' && name[at] != '_' {
			continue
		}
		stem := name[:at:at]
		if name[at] == '.' {
			if own, ok := f.lookupEnd(stem, weightEnd); ok && f.Of[own] == 0 {
				return nil, nil
			}
		}
		for _, end := range f.codesEnds {
			codes, ok := f.lookupEnd(stem, end)
			if ok && f.Of[codes] != 0 {
				if e := &f.entries[f.Of[codes]-1]; f.partsOf(e)[0].Tensor == codes {
					return e, stem
				}
			}
		}
	}
	return nil, nil
}

// checkOverrides counts the paths for which the configuration has parameters and the checkpoint no layer, in
// f.Unmatched. It adds their parameters to f.conf.unmatched, each set once.
func (f *finder) checkOverrides() {
	for i := range f.conf.over {
		o := &f.conf.over[i]
		path := []byte(o.path)
		exists := slices.ContainsFunc([]string{weightEnd, "", ".qweight", ".weight_packed"}, func(end string) bool {
			_, ok := f.lookupEnd(path, end)
			return ok
		})
		if exists || f.source.Ignored(path) {
			continue
		}
		if f.Unmatched++; f.Unmatched == 1 {
			f.UnmatchedPath = o.path
		}
		p := f.conf.parameters(o)
		if !p.plain && len(f.conf.unmatched) < maxGroups && !slices.ContainsFunc(f.conf.unmatched, func(u unmatched) bool { return u.params == p }) {
			f.conf.unmatched = append(f.conf.unmatched, unmatched{o.path, p})
		}
	}
}
