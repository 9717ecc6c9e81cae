package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// harmlessEnds lists the ends of the names of tensors that lie beside a quantized weight and do not change its values. The
// names begin with the weight's, less ".weight". Every other tensor whose name begins so is a part, or makes the weight an
// error.
var harmlessEnds = []string{
	".bias", "_bias", // of the layer
	".input_scale", ".input_zero_point", ".input_global_scale", ".input_amax", ".input_quantizer._amax", ".scale_input", // of its input
	".act_scale", ".activation_scale", ".activation_scaling_factor", ".qscale_act", ".weight.input_scale",
	".output_scale", ".output_zero_point", ".scale_output", ".output_quantizer._amax", // of its output
	".q_scale", ".k_scale", ".v_scale", ".k_zero_point", ".v_zero_point", ".kv_scale", ".prob_scale", // of what attention caches
	".e_score_correction_bias", // of a router
	"._extra_state",            // of Transformer Engine
}

// checkCompanions refuses a weight if an unknown tensor lies beside it, since such a tensor may change the weight's values.
// weightBeside tells beside which weight a tensor lies. checkCompanions skips codes, parts of decoded weights, and tensors
// that the source ignores. It also skips names that end like one of harmlessEnds, such as a bias.
func (f *finder) checkCompanions() {
	if len(f.weights) == 0 {
		return
	}
	for t := range f.tensors {
		name := f.tensors[t].Name
		owner, isPart := f.WeightOf(uint32(t))
		if isPart && f.Err(owner) == nil || f.source.Ignored(name) {
			continue
		}
		i, stem, ok := f.weightBeside(uint32(t))
		if !ok || f.Err(i) != nil || f.Codes(i) == uint32(t) {
			continue
		}
		layer := bytes.TrimSuffix(stem, []byte(weightEnd))
		if !slices.Contains(harmlessEnds, string(name[len(layer):])) {
			f.refuseWeight(i, unsupportedf("tensor %s beside the codes is not known and may change their values (--ignore-part %[1]s or Options.IgnorePart decodes without it)", layout.Quote(name)))
		}
	}
}

// checkNameCollisions refuses a weight if a stored tensor already has the name that the weight would get. It also refuses that
// tensor, or the weight it is a part of. Nothing tells which of the two is meant.
func (f *finder) checkNameCollisions() {
	renaming := slices.DeleteFunc(slices.Clone(patterns), func(p pattern) bool { return !p.givesOtherName() || !f.mayEndWith(p.nameEnd) })
	for i := range len(f.weights) { // not the weights that addRefused appends here
		codes := f.codesName(i)
		for j := range renaming {
			codesEnd := renaming[j].codesEnd
			if !hasSuffix(codes, codesEnd) {
				continue
			}
			other, ok := f.lookupEnd(codes[:len(codes)-len(codesEnd)], renaming[j].nameEnd)
			if !ok {
				continue
			}
			f.refuseWeight(i, invalidf("the weight has the name of the tensor %s", layout.Quote(f.tensors[other].Name)))
			why := invalidf("tensor %s has codes of the same weight", layout.Quote(codes))
			if owner, isPart := f.WeightOf(other); isPart {
				f.refuseWeight(owner, why)
			} else {
				f.addRefused(other, why)
			}
		}
	}
}

// weightBeside finds the weight beside which a tensor lies by its name. A stem of the name is what comes before a dot or an
// underscore. weightBeside tries the stems, the longest first. If a stem and one of f.codesEnds are the name of a weight's
// codes, it returns this weight and this stem. ok is false if no stem leads to a weight. For a stem before a dot, STEM.weight
// may be a plain tensor. The tensor then lies beside that plain tensor: ok is false, and no shorter stem is tried.
func (f *finder) weightBeside(tensor uint32) (weight int, stem []byte, ok bool) {
	name := f.tensors[tensor].Name
	for at := len(name) - 1; at > 0; at-- {
		if name[at] != '.' && name[at] != '_' {
			continue
		}
		stem = name[:at]
		if name[at] == '.' {
			if plain, exists := f.lookupEnd(stem, weightEnd); exists && !f.isPart(plain) {
				return 0, nil, false
			}
		}
		for _, end := range f.codesEnds {
			if codes, exists := f.lookupEnd(stem, end); exists {
				if i, isPart := f.WeightOf(codes); isPart && f.Codes(i) == codes {
					return i, stem, true
				}
			}
		}
	}
	return 0, nil, false
}

// overriddenEnds are the ends of the names of tensors that show that a layer exists.
var overriddenEnds = []string{weightEnd, "", ".qweight", ".weight_packed"}

// checkOverrides looks for layers that the configuration has parameters for and the checkpoint does not have. It skips layers
// that the source ignores. It counts the missing layers in f.Unmatched, and sets f.UnmatchedPath to the path of the first. It
// appends the parameters of a missing layer to f.config.unmatchedOverrides, unless equal parameters are there already. It
// appends no more than maxGroups, and no parameters that say "not quantized".
func (f *finder) checkOverrides() {
	for i := range f.config.pathOverrides {
		o := &f.config.pathOverrides[i]
		path := []byte(o.path)
		exists := slices.ContainsFunc(overriddenEnds, func(end string) bool {
			_, ok := f.lookupEnd(path, end)
			return ok
		})
		if exists || f.source.Ignored(path) {
			continue
		}
		if f.Unmatched++; f.Unmatched == 1 {
			f.UnmatchedPath = o.path
		}
		p := f.config.overrideParams(o)
		isListed := slices.ContainsFunc(f.config.unmatchedOverrides, func(u override) bool { return u.value == p })
		if !p.notQuantized && !isListed && len(f.config.unmatchedOverrides) < maxGroups {
			f.config.unmatchedOverrides = append(f.config.unmatchedOverrides, override{o.path, p})
		}
	}
}
