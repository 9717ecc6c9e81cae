package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// checkUnclaimed decides what the tensors in f.unclaimed are: see decideByCompanion for those beside a companion that only codes have.
// Without one it refuses floats that ought to have a scale. Last, when all parts are known, it refuses what else looksLikeCodes. It
// fails if the source does.
func (f *finder) checkUnclaimed() error {
	rows, ofFloats := f.presentCompanionEnds(), f.floatPatterns()
	var withoutCompanion []uint32
	var reasons [256]error // by type, why tensors withoutCompanion are refused: a file may have a great many
	for _, i := range f.unclaimed {
		if f.isPart(i) {
			continue
		}
		companion, err := f.companionOf(rows, i)
		if err != nil {
			return err
		}
		unscaled, err := f.patternOfMissingScale(ofFloats, i)
		if err != nil {
			return err
		}
		switch t := &f.tensors[i]; {
		case companion != nil:
			if err := f.decideByCompanion(i, companion); err != nil {
				return err
			}
		case unscaled != nil:
			f.addRefused(i, invalidf("floats without their scale (%s), in a checkpoint of %s that has scales", unscaled.scaleEnds[0], unscaled.schemeName))
		default:
			isRefused, err := f.looksLikeCodes(t)
			if err != nil {
				return err
			}
			if isRefused {
				withoutCompanion = append(withoutCompanion, i)
				if reasons[t.DType] == nil {
					reasons[t.DType] = f.whyRefusedWithoutScale(t.DType)
				}
			}
		}
	}
	for _, i := range withoutCompanion {
		f.addRefused(i, reasons[f.tensors[i].DType])
	}
	return nil
}

// looksLikeCodes reports whether tensor t, which has no companion, looks like codes. Floats of 8 bits and less do if they have two
// dimensions or more, or are called weight. Such integers do if they have a weight's name and the configuration mentions quantization.
// It fails if the configuration is needed and cannot be read.
func (f *finder) looksLikeCodes(t *layout.Tensor) (bool, error) {
	switch codesType := codesTypeOf[t.DType]; {
	case codesType&needsScale != 0:
		return len(t.Shape) >= 2 || hasSuffix(t.Name, "weight"), nil
	case codesType == 0 || codesType == nvfp4Codes: // blocks of NVFP4 include scales
		return false, nil
	case len(t.Shape) < 2 || !isNamedLikeWeight(t.Name):
		return false, nil
	}
	config, err := f.loadConfig()
	return err == nil && config.MentionsQuantization(), err
}

// whyRefusedWithoutScale returns the error of a tensor of type d that looksLikeCodes, which has loaded the configuration for integers.
func (f *finder) whyRefusedWithoutScale(d layout.DType) error {
	if codesTypeOf[d]&needsScale != 0 {
		return unsupportedf("%v without a scale: it may be codes, whose values are orders of magnitude away", d)
	}
	return cmp.Or(f.configRefusal, invalidf("%v without a scale, in a checkpoint whose configuration says that it is quantized", d))
}

// refuseWithoutScale refuses codes that have no scale. fitting has the patterns, one or more, that the name of the codes fits. The error
// names their schemes, or only the configuration's method if it is one of them, and the first pattern's scale. It fails if the source does.
func (f *finder) refuseWithoutScale(fitting []*pattern, codes uint32) error {
	config, err := f.loadConfig()
	if err != nil {
		return err
	}
	var schemes []string
	for _, p := range fitting {
		if p.schemeName == config.quantMethod {
			schemes = []string{p.schemeName}
			break
		}
		schemes = append(schemes, p.schemeName)
	}
	slices.Sort(schemes)
	name := f.tensors[codes].Name
	scale := string(name[:len(name)-len(fitting[0].codesEnd)]) + fitting[0].scaleEnds[0]
	f.addRefused(codes, invalidf("codes of %s without their scale %s", strings.Join(schemes, " or "), layout.Quote([]byte(scale))))
	return nil
}

// floatPatterns returns the patterns whose codes are stored as floats. It skips those for which no tensor's name ends like their scale.
func (f *finder) floatPatterns() (list []*pattern) {
	for i := range patterns {
		if p := &patterns[i]; p.floatCodes != nil && f.mayEndWith(p.scaleEnds[0]) {
			list = append(list, p)
		}
	}
	return list
}

// patternOfMissingScale returns the first of patterns, those of floatPatterns, by which tensor i ought to have a scale beside it. It
// returns nil if there is none, if the tensor is no matrix of floats, or if the source ignores it. It fails if the source does.
func (f *finder) patternOfMissingScale(patterns []*pattern, i uint32) (*pattern, error) {
	t := &f.tensors[i]
	if len(patterns) == 0 || !isFloat(t.DType) || len(t.Shape) != 2 || f.source.Ignored(t.Name) {
		return nil, nil
	}
	for _, p := range patterns {
		if !hasSuffix(t.Name, p.codesEnd) {
			continue
		}
		config, err := f.loadConfig()
		if err != nil {
			return nil, err
		}
		if p.floatCodes.needScale(config, t) {
			return p, nil
		}
	}
	return nil, nil
}

// decideByCompanion decides what tensor i is, which no pattern claims. companion is the name of a tensor that lies by it as a scale
// lies by codes. Floats that compressed-tensors only rounded stay plain: it leaves their scales in the file. Floats become a weight if
// the configuration says that floats are codes. All else is refused. It fails if the source does.
func (f *finder) decideByCompanion(i uint32, companion []byte) error {
	t := &f.tensors[i]
	config, err := f.loadConfig()
	if err != nil {
		return err
	}
	areFloats := isFloat(t.DType)
	switch {
	case areFloats && hasSuffix(t.Name, weightEnd) && config.hasRoundedFloats:
		return nil
	case f.configRefusal != nil:
		f.addRefused(i, f.configRefusal)
		return nil
	}
	for j := range patterns {
		p := &patterns[j]
		if !areFloats || p.floatCodes == nil || !p.floatCodes.isUsed(config) {
			continue
		}
		if hasSuffix(t.Name, p.codesEnd) && hasSuffix(companion, p.scaleEnds[0]) {
			stem := t.Name[:len(t.Name)-len(p.codesEnd)]
			scale, _ := f.lookupEnd(stem, p.scaleEnds[0]) // it is companion
			return f.addMatch(p, i, scale, stem)
		}
	}
	if areFloats && !config.MentionsQuantization() {
		f.addRefused(i, unsupportedf("floats beside %s without a configuration (config.json) that says what it does", layout.Quote(companion)))
	} else {
		f.addRefused(i, unsupportedf("%v beside %s: no scheme that is known has them (--ignore-part %[2]s or Options.IgnorePart takes it for what it is)", t.DType, layout.Quote(companion)))
	}
	return nil
}

// MayBeCodes reports whether a tensor that is no part of a weight may be codes: integers of 8 bits in two dimensions or more, whose
// name ends with weight. Find takes them for plain if no configuration mentions quantization.
func MayBeCodes(t *layout.Tensor) bool {
	return (t.DType == layout.I8 || t.DType == layout.U8) && len(t.Shape) >= 2 && hasSuffix(t.Name, "weight")
}
