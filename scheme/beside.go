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

// checkCompanions refuses each weight if the name of another tensor begins with the weight's name. It lets pass the weight's
// parts, harmless tensors such as a bias, and tensors that the source ignores. Any other tensor may change the values.
func (f *finder) checkCompanions() {
	if f.WeightOf == nil {
		return
	}
	for i := range f.tensors {
		name := f.tensors[i].Name
		if number := f.WeightOf[i]; number != 0 && f.Err(int(number-1)) == nil || f.source.Ignored(name) {
			continue // a part, or ignored
		}
		number, stem := f.weightBeside(uint32(i))
		if number == 0 || f.Err(int(number-1)) != nil || f.Codes(int(number-1)) == uint32(i) {
			continue
		}
		layer := bytes.TrimSuffix(stem, []byte(weightEnd))
		if !slices.Contains(harmless, string(name[len(layer):])) {
			f.refuseWeight(number, unsupportedf("tensor %s beside the codes is not known and may change their values (--ignore-part %[1]s or Options.IgnorePart decodes without it)", layout.Quote(name)))
		}
	}
}

// checkNames refuses a weight if a stored tensor has the name that the weight would get. It refuses that tensor too:
// nothing tells which of the two is meant.
func (f *finder) checkNames() {
	var ends [][2]string // how the names of codes and weight end, where they differ
	for _, p := range patterns {
		if pair := [2]string{p.codesEnd, p.nameEnd}; p.refusal == nil && !p.companionFirst && p.codesEnd != p.nameEnd && f.mayEndWith(p.nameEnd) && !slices.Contains(ends, pair) {
			ends = append(ends, pair)
		}
	}
	for i := range len(f.weights) {
		codes := f.codesName(i)
		for _, pair := range ends {
			codesEnd, nameEnd := pair[0], pair[1]
			if !hasSuffix(codes, codesEnd) {
				continue
			}
			other, ok := f.lookupEnd(codes[:len(codes)-len(codesEnd)], nameEnd)
			if !ok {
				continue
			}
			f.refuseWeight(uint32(i+1), invalidf("the weight has the name of the tensor %s", layout.Quote(f.tensors[other].Name)))
			why := invalidf("tensor %s has codes of the same weight", layout.Quote(codes))
			if number := f.WeightOf[other]; number != 0 {
				f.refuseWeight(number, why)
			} else {
				f.refuseCodes(other, why)
			}
		}
	}
}

// weightBeside returns the weight whose codes share the longest stem with the name of tensor i; a stem ends before a dot or
// an underscore. number is the weight's position plus one, or 0 if there is none, or if a plain tensor STEM.weight exists.
func (f *finder) weightBeside(i uint32) (number uint32, stem []byte) {
	name := f.tensors[i].Name
	for at := len(name) - 1; at > 0; at-- {
		if name[at] != '.' && name[at] != '_' {
			continue
		}
		stem := name[:at:at]
		if name[at] == '.' {
			if own, ok := f.lookupEnd(stem, weightEnd); ok && f.WeightOf[own] == 0 {
				return 0, nil
			}
		}
		for _, end := range f.codesEnds {
			codes, ok := f.lookupEnd(stem, end)
			if !ok {
				continue
			}
			if number := f.WeightOf[codes]; number != 0 && f.Codes(int(number-1)) == codes {
				return number, stem
			}
		}
	}
	return 0, nil
}

// checkOverrides counts in f.Unmatched the layers that the configuration has parameters for and the checkpoint does
// not have. It appends their parameters to f.conf.unmatchedOverrides, equal ones once.
func (f *finder) checkOverrides() {
	for i := range f.conf.pathOverrides {
		o := &f.conf.pathOverrides[i]
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
		p := f.conf.overrideParams(o)
		if !p.notQuantized && len(f.conf.unmatchedOverrides) < maxGroups && !slices.ContainsFunc(f.conf.unmatchedOverrides, func(u unmatched) bool { return u.params == p }) {
			f.conf.unmatchedOverrides = append(f.conf.unmatchedOverrides, unmatched{o.path, p})
		}
	}
}
