package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// otherType adds tensor i, whose type is none that codes have, to f.unclaimed if its name may be that of codes.
func (f *finder) otherType(i uint32) {
	t := &f.tensors[i]
	if !isFloat(t.DType) || hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name) { // most tensors are floats
		f.unclaimed = append(f.unclaimed, i)
	}
}

// leftOver refuses what may be codes and is no part of a weight: whatever has a companion of codes beside it, and without one
// floats of 8 bits, and integers if the checkpoint is said to be quantized.
func (f *finder) leftOver() error {
	var why [256]uint32 // results by type: a file may have a great many tensors
	rows, ofFloats := f.presentBesides(), f.presentFloats()
	left := f.unclaimed[:0]
	for _, i := range f.unclaimed {
		t := &f.tensors[i]
		if f.Of != nil && f.Of[i] != 0 {
			continue
		}
		k := kinds[t.DType]
		isMatrix := len(t.Shape) >= 2 && (hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name)) // .qweight too
		beside, err := f.companionOf(rows, i)
		if err != nil {
			return err
		}
		unscaled, err := f.lacksScale(ofFloats, i)
		if err != nil {
			return err
		}
		switch {
		case beside != nil:
			if err := f.withCompanion(i, beside); err != nil {
				return err
			}
		case unscaled != nil:
			f.reject(i, misfit("floats without their scale (%s), in a checkpoint of %s that has scales", unscaled.scales[0], unscaled.scheme))
		case k&needsScale != 0 && (len(t.Shape) >= 2 || hasSuffix(t.Name, "weight")):
			left = append(left, i)
			if why[t.DType] == 0 {
				why[t.DType] = f.note(result{err: unsupported("%v without a scale: it may be codes, whose values are orders of magnitude away", t.DType)})
			}
		case k != 0 && k&(needsScale|blocks) == 0 && isMatrix:
			conf, err := f.configuration()
			if err != nil {
				return err
			}
			if !conf.Says() {
				continue
			}
			left = append(left, i)
			if why[t.DType] = cmp.Or(why[t.DType], f.refused); why[t.DType] == 0 {
				why[t.DType] = f.note(result{err: misfit("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType)})
			}
		}
	}
	if len(left) > 0 {
		f.begin(1, len(left))
	}
	for _, i := range left {
		f.refuse(i, why[f.tensors[i].DType])
	}
	return nil
}

// withoutScale refuses codes that have no scale. sure are the patterns with their name; the error names their
// schemes, or only that of the configuration.
func (f *finder) withoutScale(sure []*usedPattern, codes uint32) error {
	conf, err := f.configuration()
	if err != nil {
		return err
	}
	var schemes []string
	for _, p := range sure {
		if schemes = append(schemes, p.scheme); p.scheme == conf.method {
			schemes = schemes[len(schemes)-1:]
			break
		}
	}
	slices.Sort(schemes)
	name := f.tensors[codes].Name
	scale := string(name[:len(name)-len(sure[0].codes)]) + sure[0].scales[0]
	f.reject(codes, misfit("codes of %s without their scale %s", strings.Join(schemes, " or "), layout.Quote([]byte(scale))))
	return nil
}

// presentFloats returns the patterns whose codes are floats, if some tensor's name may end like their scale's.
func (f *finder) presentFloats() (list []*pattern) {
	for i := range patterns {
		if p := &patterns[i]; p.floats != nil && f.mayEnd(p.scales[0]) {
			list = append(list, p)
		}
	}
	return list
}

// lacksScale returns the pattern by which tensor i, which has no scale, ought to have one: it is a matrix of floats
// that the configuration calls codes. Otherwise it returns nil. The error is that of the source.
func (f *finder) lacksScale(ofFloats []*pattern, i uint32) (*pattern, error) {
	t := &f.tensors[i]
	if len(ofFloats) == 0 || !isFloat(t.DType) || len(t.Shape) != 2 || f.source.Ignored(t.Name) {
		return nil, nil
	}
	for _, p := range ofFloats {
		if !hasSuffix(t.Name, p.codes) {
			continue
		}
		if conf, err := f.configuration(); err != nil || p.floats.needScale(conf, t) {
			return p, err
		}
	}
	return nil, nil
}

// withCompanion decides about tensor i, beside which a tensor lies as a scale beside codes. It adds a weight of
// floats if the configuration says so, leaves weights that were only rounded, and refuses others.
func (f *finder) withCompanion(i uint32, beside []byte) error {
	t := &f.tensors[i]
	conf, err := f.configuration()
	if err != nil {
		return err
	}
	switch {
	case isFloat(t.DType) && hasSuffix(t.Name, weightEnd) && conf.isRounded: // the scale tells how they were
		return nil
	case f.refused != 0:
		f.refuse(i, f.refused)
		return nil
	}
	for j := range patterns {
		p := &patterns[j]
		if isFloat(t.DType) && p.floats != nil && p.floats.isUsed(conf) && hasSuffix(t.Name, p.codes) && hasSuffix(beside, p.scales[0]) {
			stem := t.Name[:len(t.Name)-len(p.codes)]
			scale, _ := f.lookupEnd(stem, p.scales[0])
			return f.add(&usedPattern{pattern: p}, i, scale, stem, 0)
		}
	}
	if isFloat(t.DType) && !conf.Says() {
		f.reject(i, unsupported("floats beside %s without a configuration (config.json) that says what it does", layout.Quote(beside)))
	} else {
		f.reject(i, unsupported("%v beside %s: no scheme that is known has them (--ignore-part %[2]s or Options.IgnorePart takes it for what it is)", t.DType, layout.Quote(beside)))
	}
	return nil
}

// MayBeCodes reports whether a tensor that is no part of a weight looks like codes: integers of 8 bits that are
// called weight.
func MayBeCodes(t *layout.Tensor) bool {
	return (t.DType == layout.I8 || t.DType == layout.U8) && len(t.Shape) >= 2 && hasSuffix(t.Name, "weight")
}

// besides lists how the names of tensors end that tell of codes beside them, by the end of the codes' names. register adds those
// of codes whose names are no weight's.
var besides = []beside{
	{"", []string{"_scale", "_scales", "_scale_inv", "_scale_2", "_zero_point", ".absmax", ".quant_map"}, no},
	{".weight", []string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight.absmax", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".SCB", ".comfy_quant"}, yes},
	{".weight", []string{".scale"}, no},
	{".weight", []string{".scales"}, unsaid},
}

// beside is one row of besides.
type beside struct {
	codes  string
	ends   []string
	floats answered // of codes that are floats too; unsaid: if the checkpoint is said to be quantized
}

// addBesides adds the ends of p's scales, zero points and biases to besides, by the end of the codes' names. It adds
// none if these are named like plain weights, or p is not decoded.
func (p *pattern) addBesides() {
	if p.codes == "" || p.codes == weightEnd || p.inward || p.refused != nil {
		return
	}
	ends := slices.Clone(p.scales)
	for _, c := range p.others {
		if c.role == Scale || c.role == ZeroPoint || c.role == Bias || c.role == GlobalScale {
			ends = append(ends, c.end)
		}
	}
	row := slices.IndexFunc(besides, func(b beside) bool { return b.codes == p.codes })
	if row < 0 {
		row, besides = len(besides), append(besides, beside{codes: p.codes, floats: yes})
	}
	for _, end := range ends {
		if !slices.Contains(besides[row].ends, end) {
			besides[row].ends = append(besides[row].ends, end)
		}
	}
}

// endsLikeCodes reports whether a name is one of codes and of nothing else.
func endsLikeCodes(name []byte) bool {
	return slices.ContainsFunc(besides, func(b beside) bool { return b.codes != "" && b.codes != weightEnd && hasSuffix(name, b.codes) })
}

// presentBesides returns besides with the ends that some tensor's name may have.
func (f *finder) presentBesides() (rows []beside) {
	for _, b := range besides {
		b.ends = slices.DeleteFunc(slices.Clone(b.ends), func(end string) bool { return !f.mayEnd(end) })
		if len(b.ends) > 0 {
			rows = append(rows, b)
		}
	}
	return rows
}

// companionOf returns the name of a tensor that lies beside tensor codes as a scale beside codes, whatever its type,
// or nil. The error is that of the source.
func (f *finder) companionOf(rows []beside, codes uint32) ([]byte, error) {
	t := &f.tensors[codes]
	for i := range rows {
		b := &rows[i]
		if !hasSuffix(t.Name, b.codes) || isFloat(t.DType) && b.floats == no {
			continue
		}
		stem := t.Name[:len(t.Name)-len(b.codes)]
		for _, end := range b.ends {
			i, ok := f.find(codes, stem, end)
			if ok && isFloat(t.DType) && b.floats == unsaid {
				conf, err := f.configuration()
				if err != nil {
					return nil, err
				}
				ok = conf.Says()
			}
			if ok {
				return f.tensors[i].Name, nil
			}
		}
	}
	return nil, nil
}
