package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// addUnclaimedIfLikeCodes appends tensor i, of a type that no known scheme has for codes, to f.unclaimed if it may be codes all the same:
// it is no float, or has a name like a weight's or like codes'.
func (f *finder) addUnclaimedIfLikeCodes(i uint32) {
	t := &f.tensors[i]
	if !isFloat(t.DType) || hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name) { // most tensors are floats
		f.unclaimed = append(f.unclaimed, i)
	}
}

// checkUnclaimed refuses tensors in f.unclaimed that look like codes of no known scheme. Those with a companion that
// only codes have come first. Without one, floats of 8 bits and less are refused, and integers if the configuration
// says that the checkpoint is quantized. It fails if the source does.
func (f *finder) checkUnclaimed() error {
	rows, ofFloats := f.presentCompanionEnds(), f.floatPatterns()
	var left []uint32      // tensors without a companion, which are refused after all others
	var reasons [256]error // why left are refused, by type: a file may have a great many tensors
	for _, i := range f.unclaimed {
		if f.isPart(i) {
			continue
		}
		t := &f.tensors[i]
		k := codesTypeOf[t.DType]
		isMatrix := len(t.Shape) >= 2 && (hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name)) // .qweight too
		beside, err := f.companionOf(rows, i)
		if err != nil {
			return err
		}
		unscaled, err := f.patternOfMissingScale(ofFloats, i)
		if err != nil {
			return err
		}
		switch {
		case beside != nil:
			if err := f.decideByCompanion(i, beside); err != nil {
				return err
			}
		case unscaled != nil:
			f.addRefused(i, invalidf("floats without their scale (%s), in a checkpoint of %s that has scales", unscaled.scaleEnds[0], unscaled.schemeName))
		case k&needsScale != 0 && (len(t.Shape) >= 2 || hasSuffix(t.Name, "weight")):
			left = append(left, i)
			if reasons[t.DType] == nil {
				reasons[t.DType] = unsupportedf("%v without a scale: it may be codes, whose values are orders of magnitude away", t.DType)
			}
		case k != 0 && k&(needsScale|nvfp4Codes) == 0 && isMatrix:
			config, err := f.loadConfig()
			if err != nil {
				return err
			}
			if !config.MentionsQuantization() {
				continue
			}
			left = append(left, i)
			if reasons[t.DType] = cmp.Or(reasons[t.DType], f.configRefusal); reasons[t.DType] == nil {
				reasons[t.DType] = invalidf("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType)
			}
		}
	}
	for _, i := range left {
		f.addRefused(i, reasons[f.tensors[i].DType])
	}
	return nil
}

// refuseWithoutScale refuses codes that have no scale. sure are the patterns whose codes' names end like theirs. The weight's error
// names the schemes of sure, or only the configuration's if it is one of them. It fails if the source does.
func (f *finder) refuseWithoutScale(sure []*pattern, codes uint32) error {
	config, err := f.loadConfig()
	if err != nil {
		return err
	}
	var schemes []string
	for _, p := range sure {
		if schemes = append(schemes, p.schemeName); p.schemeName == config.quantMethod {
			schemes = schemes[len(schemes)-1:]
			break
		}
	}
	slices.Sort(schemes)
	name := f.tensors[codes].Name
	scale := string(name[:len(name)-len(sure[0].codesEnd)]) + sure[0].scaleEnds[0]
	f.addRefused(codes, invalidf("codes of %s without their scale %s", strings.Join(schemes, " or "), layout.Quote([]byte(scale))))
	return nil
}

// floatPatterns returns the patterns that take floats for codes. It leaves out those whose scales no tensor can be by its name.
func (f *finder) floatPatterns() (list []*pattern) {
	for i := range patterns {
		if p := &patterns[i]; p.floatCodes != nil && f.mayEndWith(p.scaleEnds[0]) {
			list = append(list, p)
		}
	}
	return list
}

// patternOfMissingScale returns the one of patterns by which tensor i, a matrix of floats, ought to have a scale beside it. It
// returns nil if there is none, or if the source ignores the tensor. It fails if the source does.
func (f *finder) patternOfMissingScale(patterns []*pattern, i uint32) (*pattern, error) {
	t := &f.tensors[i]
	if len(patterns) == 0 || !isFloat(t.DType) || len(t.Shape) != 2 || f.source.Ignored(t.Name) {
		return nil, nil
	}
	for _, p := range patterns {
		if !hasSuffix(t.Name, p.codesEnd) {
			continue
		}
		if config, err := f.loadConfig(); err != nil || p.floatCodes.needScale(config, t) {
			return p, err
		}
	}
	return nil, nil
}

// decideByCompanion decides what tensor i is, which no pattern claims. beside is the name of a tensor that lies by it as a scale
// lies by codes. Floats become a weight if the configuration says that floats are codes, and stay plain if they were only rounded
// by that scale. All else is refused. It fails if the source does.
func (f *finder) decideByCompanion(i uint32, beside []byte) error {
	t := &f.tensors[i]
	config, err := f.loadConfig()
	if err != nil {
		return err
	}
	switch {
	case isFloat(t.DType) && hasSuffix(t.Name, weightEnd) && config.hasRoundedFloats: // the scale tells how they were
		return nil
	case f.configRefusal != nil:
		f.addRefused(i, f.configRefusal)
		return nil
	}
	for j := range patterns {
		p := &patterns[j]
		if isFloat(t.DType) && p.floatCodes != nil && p.floatCodes.isUsed(config) && hasSuffix(t.Name, p.codesEnd) && hasSuffix(beside, p.scaleEnds[0]) {
			stem := t.Name[:len(t.Name)-len(p.codesEnd)]
			scale, _ := f.lookupEnd(stem, p.scaleEnds[0])
			return f.addMatch(p, i, scale, stem)
		}
	}
	if isFloat(t.DType) && !config.MentionsQuantization() {
		f.addRefused(i, unsupportedf("floats beside %s without a configuration (config.json) that says what it does", layout.Quote(beside)))
	} else {
		f.addRefused(i, unsupportedf("%v beside %s: no scheme that is known has them (--ignore-part %[2]s or Options.IgnorePart takes it for what it is)", t.DType, layout.Quote(beside)))
	}
	return nil
}

// MayBeCodes reports whether a tensor that is no part of a weight looks like codes: integers of 8 bits that are
// called weight.
func MayBeCodes(t *layout.Tensor) bool {
	return (t.DType == layout.I8 || t.DType == layout.U8) && len(t.Shape) >= 2 && hasSuffix(t.Name, "weight")
}

// companionEnds lists, by how the name of a tensor ends, how the names of companions end that only codes have. register adds rows
// for names that only codes have.
var companionEnds = []companionRow{
	{"", []string{"_scale", "_scales", "_scale_inv", "_scale_2", "_zero_point", ".absmax", ".quant_map"}, no},
	{".weight", []string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight.absmax", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".SCB", ".comfy_quant"}, yes},
	{".weight", []string{".scale"}, no},
	{".weight", []string{".scales"}, unset},
}

// companionRow has the ends of the names of companions that codes have whose name ends with codesEnd.
type companionRow struct {
	codesEnd      string
	companionEnds []string
	floatCodes    answer // also of codes that are floats; unset: only if the configuration says that the checkpoint is quantized
}

// addCompanionEnds adds the name ends of p's scales, zero points and biases to companionEnds, in the row of its codes.
// It adds nothing if codes are named as plain weights are, or if p is not decoded.
func (p *pattern) addCompanionEnds() {
	if p.codesEnd == "" || p.codesEnd == weightEnd || p.swapsCodesAndScale || p.refusal != nil {
		return
	}
	ends := slices.Clone(p.scaleEnds)
	for _, c := range p.companions {
		if c.role == Scale || c.role == ZeroPoint || c.role == Bias || c.role == GlobalScale {
			ends = append(ends, c.end)
		}
	}
	row := slices.IndexFunc(companionEnds, func(b companionRow) bool { return b.codesEnd == p.codesEnd })
	if row < 0 {
		row, companionEnds = len(companionEnds), append(companionEnds, companionRow{codesEnd: p.codesEnd, floatCodes: yes})
	}
	for _, end := range ends {
		if !slices.Contains(companionEnds[row].companionEnds, end) {
			companionEnds[row].companionEnds = append(companionEnds[row].companionEnds, end)
		}
	}
}

// endsLikeCodes reports whether a tensor's name ends as only names of codes end.
func endsLikeCodes(name []byte) bool {
	return slices.ContainsFunc(companionEnds, func(b companionRow) bool {
		return b.codesEnd != "" && b.codesEnd != weightEnd && hasSuffix(name, b.codesEnd)
	})
}

// presentCompanionEnds returns the rows of companionEnds, with only the ends that the checkpoint's names have.
func (f *finder) presentCompanionEnds() (rows []companionRow) {
	for _, b := range companionEnds {
		if b.companionEnds = f.presentEnds(b.companionEnds); len(b.companionEnds) > 0 {
			rows = append(rows, b)
		}
	}
	return rows
}

// companionOf returns the name of a tensor that lies beside the tensor codes as a scale does, or nil without one. rows have the
// ends of names that it looks for. It fails if the source does.
func (f *finder) companionOf(rows []companionRow, codes uint32) ([]byte, error) {
	t := &f.tensors[codes]
	for i := range rows {
		b := &rows[i]
		if !hasSuffix(t.Name, b.codesEnd) || isFloat(t.DType) && b.floatCodes == no {
			continue
		}
		stem := t.Name[:len(t.Name)-len(b.codesEnd)]
		for _, end := range b.companionEnds {
			i, ok := f.find(stem, end)
			if ok && isFloat(t.DType) && b.floatCodes == unset {
				config, err := f.loadConfig()
				if err != nil {
					return nil, err
				}
				ok = config.MentionsQuantization()
			}
			if ok {
				return f.tensors[i].Name, nil
			}
		}
	}
	return nil, nil
}
