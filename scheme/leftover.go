package scheme

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// checkUnclaimed decides about the tensors in f.unclaimed, which no pattern fits. decideByCompanion decides about tensors beside
// a companion that only codes have. It refuses floats that ought to have a scale, by patternOfMissingScale. It refuses others
// for which whyLikeCodes returns a reason. Such tensors are refused last.
func (f *finder) checkUnclaimed(ctx context.Context) {
	rows := f.presentCompanionEnds()
	var withoutCompanion []uint32
	var reasons [256]error // by type, why tensors withoutCompanion are refused: a file may have a great many
	for _, i := range f.unclaimed {
		if f.isPart(i) {
			continue
		}
		t := &f.tensors[i]
		if companion := f.companionOf(ctx, rows, i); companion != nil {
			f.decideByCompanion(ctx, i, companion)
		} else if p := f.patternOfMissingScale(ctx, i); p != nil {
			f.addRefused(i, invalidf("floats without their scale (%s), in a checkpoint of %s that has scales", p.scaleEnds[0], p.schemeName))
		} else if why := f.whyLikeCodes(ctx, t); why != nil {
			withoutCompanion = append(withoutCompanion, i)
			reasons[t.DType] = cmp.Or(reasons[t.DType], why)
		}
	}
	for _, i := range withoutCompanion {
		f.addRefused(i, reasons[f.tensors[i].DType])
	}
}

// whyLikeCodes returns why tensor t, which has no companion, is refused. It returns nil if t does not look like codes. Floats
// of 8 bits or fewer look like codes if they have two dimensions or more, or a name that ends with "weight". Integers look
// like codes if they have two dimensions or more and a name like a weight's, and if the configuration mentions quantization.
func (f *finder) whyLikeCodes(ctx context.Context, t *layout.Tensor) error {
	codesType, isMatrix := typeOf[t.DType]&mayBeCodes, len(t.Shape) >= 2
	switch {
	case codesType&needsScale != 0 && (isMatrix || hasSuffix(t.Name, "weight")):
		return unsupportedf("%v without a scale: it may be codes, whose values are orders of magnitude from the weight's", t.DType)
	case codesType&(needsScale|nvfp4Blocks) != 0, codesType == 0, !isMatrix, !isNamedLikeWeight(t.Name): // blocks of NVFP4 include scales
		return nil
	case f.loadConfig(ctx).MentionsQuantization():
		return cmp.Or(f.configRefusal, invalidf("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType))
	}
	return nil
}

// refuseWithoutScale refuses codes that have no scale. fitting has the patterns, one or more, that the name of the codes
// fits. The error names the schemes of the patterns or, if the configuration's method is one of the schemes, only that
// method. The error also names the scale that the first pattern wants.
func (f *finder) refuseWithoutScale(ctx context.Context, fitting []*pattern, codes uint32) {
	var schemes []string
	for _, p := range fitting {
		schemes = append(schemes, p.schemeName)
	}
	if method := f.loadConfig(ctx).quantMethod; slices.Contains(schemes, method) {
		schemes = []string{method}
	}
	slices.Sort(schemes)
	name := f.tensors[codes].Name
	scale := string(name[:len(name)-len(fitting[0].codesEnd)]) + fitting[0].scaleEnds[0]
	f.addRefused(codes, invalidf("codes of %s without their scale %s", strings.Join(schemes, " or "), layout.Quote(scale)))
}

// patternOfMissingScale returns the first pattern by which tensor i ought to have a scale beside it. It returns nil if there
// is none. Only matrices of floats that the source does not ignore may need one. The checkpoint must also have names that may
// end like a scale's.
func (f *finder) patternOfMissingScale(ctx context.Context, i uint32) *pattern {
	t := &f.tensors[i]
	if !isFloat(t.DType) || len(t.Shape) != 2 {
		return nil
	}
	for _, p := range f.patterns {
		if p.lacksScale != nil && hasSuffix(t.Name, p.codesEnd) && !f.source.Ignored(t.Name) && p.lacksScale(f.loadConfig(ctx), t) {
			return p
		}
	}
	return nil
}

// decideByCompanion decides what tensor i is. No pattern fits the tensor, but it lies beside companion as codes lie beside
// their scale. Floats whose name ends with .weight stay plain if compressed-tensors has only rounded them: their scales are
// then left in the file. decideByCompanion refuses everything else.
func (f *finder) decideByCompanion(ctx context.Context, i uint32, companion []byte) {
	t, config := &f.tensors[i], f.loadConfig(ctx)
	areFloats, status := isFloat(t.DType), config.text("quantization_status")
	areRounded := areFloats && config.quantMethod == "compressed-tensors" && status != "" && status != "compressed"
	switch {
	case areRounded && hasSuffix(t.Name, weightEnd):
	case f.configRefusal != nil:
		f.addRefused(i, f.configRefusal)
	case areFloats && !config.MentionsQuantization():
		f.addRefused(i, unsupportedf("floats beside %s without a configuration (config.json) that says what it does", layout.Quote(companion)))
	default:
		f.addRefused(i, unsupportedf("%v beside %s: no scheme that is known has them (--ignore-part %[2]s or Options.IgnorePart takes it for what it is)", t.DType, layout.Quote(companion)))
	}
}

// MayBeCodes reports whether a tensor that is no part of a weight may be codes: integers of 8 bits in two dimensions or more, whose
// name ends with weight. Find takes them for plain if no configuration mentions quantization.
func MayBeCodes(t *layout.Tensor) bool {
	return (t.DType == layout.I8 || t.DType == layout.U8) && len(t.Shape) >= 2 && hasSuffix(t.Name, "weight")
}

// addRefused adds a weight that has codes as its only part and cannot be decoded: err says why. It needs no pattern.
func (f *finder) addRefused(codes uint32, err error) {
	f.addWeight(Weight{Name: f.tensors[codes].Name, Parts: []Part{{Codes, codes}}, Err: err}, match{})
}
