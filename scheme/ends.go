package scheme

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// nameEnds tells how the names of tensors end. It spares lookups of names that no tensor has: without it a plain
// checkpoint takes ten times as long to open.
type nameEnds struct {
	endsFromDot map[string]bool // the rest of each name from its last dot on, or all of it
	mayEnd      map[string]bool // what mayEndWith has returned
}

// presentPatterns returns the patterns whose codes the checkpoint may have by the ends of its names. It leaves out those whose scale
// it cannot have, unless the pattern has nameDecides. The order is that of patterns.
func (f *finder) presentPatterns() (list []*pattern) {
	for i := range patterns {
		p := &patterns[i]
		if f.mayEndWith(p.codesEnd) && (p.nameDecides || slices.ContainsFunc(p.scaleEnds, f.mayEndWith)) {
			list = append(list, p)
		}
	}
	return list
}

// mayEndWith reports whether some tensor's name may end with end. It compares only the part from the last dot on, and so may be
// true although no name does. The first call indexes all names.
func (f *finder) mayEndWith(end string) bool {
	may, isKnown := f.mayEnd[end]
	if isKnown {
		return may
	}
	if f.mayEnd == nil {
		f.collectEnds()
	}
	if at := strings.LastIndexByte(end, '.'); at >= 0 {
		may = f.endsFromDot[end[at:]]
	} else {
		for name := range f.endsFromDot {
			may = may || strings.HasSuffix(name, end)
		}
	}
	f.mayEnd[end] = may
	return may
}

// collectEnds makes both maps, and fills f.endsFromDot with the rest of each tensor's name from its last dot on.
func (f *finder) collectEnds() {
	f.endsFromDot, f.mayEnd = make(map[string]bool), make(map[string]bool)
	var before []byte
	for i := range f.tensors {
		name := f.tensors[i].Name
		name = name[max(bytes.LastIndexByte(name, '.'), 0):]
		if !bytes.Equal(name, before) && !f.endsFromDot[string(name)] {
			f.endsFromDot[string(name)] = true
		}
		before = name
	}
}

// find returns the tensor whose name is stem followed by end. ok is false if there is none, or if the source ignores it.
func (f *finder) find(stem []byte, end string) (tensor uint32, ok bool) {
	if !f.mayEndWith(end) {
		return 0, false
	}
	tensor, ok = f.lookupEnd(stem, end)
	return tensor, ok && !f.source.Ignored(f.tensors[tensor].Name)
}

// lookupEnd returns the tensor whose name is stem followed by end, even one that the source ignores. ok is false if there is none.
func (f *finder) lookupEnd(stem []byte, end string) (tensor uint32, ok bool) {
	f.nameMemory = append(append(f.nameMemory[:0], stem...), end...)
	i := f.nameIndex.Find(layout.HashNameBytes(f.nameMemory), func(i int) bool { return bytes.Equal(f.tensors[i].Name, f.nameMemory) })
	return uint32(i), i >= 0
}

// hasSuffix reports whether name ends with end.
func hasSuffix(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// companionEnds lists, by how the name of a tensor ends, how the names of companions end that only codes have. register adds to it.
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
	allowsFloats  answer // whether codes may be floats; unset: only if the configuration mentions quantization
}

// addCompanionEnds adds the ends of names of p's scales, zero points and biases to companionEnds. They go to the row that has
// p.codesEnd, a new one if there is none. It adds nothing if p.codesEnd is also the end of a plain weight's name. It adds
// nothing if the codes have another end, or if p is not decoded.
func (p *pattern) addCompanionEnds() {
	if p.codesEnd == "" || p.codesEnd == weightEnd || p.swapsCodesAndScale || p.refusal != nil {
		return
	}
	row := slices.IndexFunc(companionEnds, func(r companionRow) bool { return r.codesEnd == p.codesEnd })
	if row < 0 { // no plain weight is called so, and hence floats called so are codes too
		row, companionEnds = len(companionEnds), append(companionEnds, companionRow{codesEnd: p.codesEnd, allowsFloats: yes})
	}
	ends := slices.Clone(p.scaleEnds)
	for _, c := range p.companions {
		if c.role == Scale || c.role == ZeroPoint || c.role == Bias || c.role == GlobalScale {
			ends = append(ends, c.end)
		}
	}
	for _, end := range ends {
		if !slices.Contains(companionEnds[row].companionEnds, end) {
			companionEnds[row].companionEnds = append(companionEnds[row].companionEnds, end)
		}
	}
}

// isNamedLikeWeight reports whether a name ends with "weight", as that of .qweight does, or as only names of codes end.
func isNamedLikeWeight(name []byte) bool {
	return hasSuffix(name, "weight") || slices.ContainsFunc(companionEnds, func(r companionRow) bool {
		return r.codesEnd != "" && hasSuffix(name, r.codesEnd)
	})
}

// presentCompanionEnds returns the rows of companionEnds, with only the ends that the checkpoint's names may have. It leaves out rows
// without any.
func (f *finder) presentCompanionEnds() (rows []companionRow) {
	isAbsent := func(end string) bool { return !f.mayEndWith(end) }
	for _, row := range companionEnds {
		if row.companionEnds = slices.DeleteFunc(slices.Clone(row.companionEnds), isAbsent); len(row.companionEnds) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// companionOf looks for a tensor beside the tensor codes, of a name that one of rows lists. It returns the name of the first
// that it finds, or nil. If codes are floats, only rows that allow floats count: see companionRow. It fails if the
// configuration is needed and cannot be read.
func (f *finder) companionOf(rows []companionRow, codes uint32) ([]byte, error) {
	t := &f.tensors[codes]
	areFloats := isFloat(t.DType)
	for i := range rows {
		row := &rows[i]
		if !hasSuffix(t.Name, row.codesEnd) || areFloats && row.allowsFloats == no {
			continue
		}
		stem := t.Name[:len(t.Name)-len(row.codesEnd)]
		for _, end := range row.companionEnds {
			companion, ok := f.find(stem, end)
			if !ok {
				continue
			}
			if areFloats && row.allowsFloats == unset {
				config, err := f.loadConfig()
				if err != nil {
					return nil, err
				}
				if !config.MentionsQuantization() {
					continue
				}
			}
			return f.tensors[companion].Name, nil
		}
	}
	return nil, nil
}
