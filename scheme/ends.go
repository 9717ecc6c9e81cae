package scheme

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// presentPatterns returns the patterns whose codes may be among the tensors, by the ends of the tensors' names. It leaves out a pattern if
// no name can be the name of its scale. A pattern with nameTellsScheme stays even then, since codes of it without a scale are refused. The
// order is the order of patterns.
func (f *finder) presentPatterns() (list []*pattern) {
	for i := range patterns {
		p := &patterns[i]
		if f.mayEndWith(p.codesEnd) && (p.nameTellsScheme || slices.ContainsFunc(p.scaleEnds, f.mayEndWith)) {
			list = append(list, p)
		}
	}
	return list
}

// collectEnds fills f.lastSegments with the rest of each tensor's name from its last dot on, or with all of a name without a dot. It
// spares lookups of names that no tensor has: without it a plain checkpoint takes ten times as long to open.
func (f *finder) collectEnds() {
	f.lastSegments, f.mayEnd = make(map[string]bool), make(map[string]bool)
	var before []byte
	for i := range f.tensors {
		name := f.tensors[i].Name
		name = name[max(bytes.LastIndexByte(name, '.'), 0):]
		if !bytes.Equal(name, before) && !f.lastSegments[string(name)] {
			f.lastSegments[string(name)] = true
		}
		before = name
	}
}

// mayEndWith reports whether some tensor's name may end with end. It compares only the part from the last dot on, and so may be
// true although no name does.
func (f *finder) mayEndWith(end string) bool {
	may, isKnown := f.mayEnd[end]
	if !isKnown {
		lastSegment := end[max(strings.LastIndexByte(end, '.'), 0):]
		for name := range f.lastSegments {
			may = may || strings.HasSuffix(name, lastSegment)
		}
		f.mayEnd[end] = may
	}
	return may
}

// find returns the tensor whose name is stem followed by end. ok is false if there is none, or if the source ignores it.
func (f *finder) find(stem []byte, end string) (tensor uint32, ok bool) {
	if !f.mayEndWith(end) {
		return 0, false
	}
	tensor, ok = f.lookupEnd(stem, end)
	return tensor, ok && !f.source.Ignored(f.tensors[tensor].Name)
}

// lookupEnd returns the tensor whose name is stem followed by end. Unlike find, it also returns a tensor that f.source ignores. ok is false
// if there is none.
func (f *finder) lookupEnd(stem []byte, end string) (tensor uint32, ok bool) {
	f.nameMemory = append(append(f.nameMemory[:0], stem...), end...)
	i := f.nameIndex.Find(layout.HashNameBytes(f.nameMemory), func(i int) bool { return bytes.Equal(f.tensors[i].Name, f.nameMemory) })
	return uint32(i), i >= 0
}

// hasSuffix reports whether name ends with end.
func hasSuffix(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// companionEnds lists how the names of companions end that only codes have. Each row is for tensors whose name ends with its
// codesEnd.
var companionEnds = []companionRow{
	{"", []string{"_scale", "_scales", "_scale_inv", "_scale_2", "_zero_point", ".absmax", ".quant_map"}, no},
	{".weight", []string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight.absmax", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".SCB", ".comfy_quant"}, yes},
	{".weight", []string{".scale"}, no},
	{".weight", []string{".scales"}, unset},
	// No plain weight is called so, and hence floats called so are codes too.
	{"_packed", []string{"_scale", "_global_scale", "_zero_point"}, yes},
	{"_blocks", []string{"_scales"}, yes},
	{".qweight", []string{".scales", ".qzeros"}, yes},
	{".W_q", []string{".scale", ".zero"}, yes},
}

// companionRow lists how the names of companions end, for codes whose name ends with codesEnd.
type companionRow struct {
	codesEnd      string
	companionEnds []string
	allowsFloats  answer // whether codes may be floats; unset: only if the configuration mentions quantization
}

// isNamedLikeWeight reports whether a name ends with "weight", as ".qweight" does. It also reports true if the name ends with
// a codesEnd of companionEnds that is not empty, such as "_packed".
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

// companionOf returns the name of a companion of the tensor at the position codes, or nil if there is none. A companion has
// the same stem, and its name has an end that one of rows lists. The first companion that exists counts. If the codes are
// floats, a row counts only if it allows floats: always, or for a configuration that mentions quantization. See companionRow.
func (f *finder) companionOf(ctx context.Context, rows []companionRow, codes uint32) []byte {
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
			if ok && (!areFloats || row.allowsFloats == yes || f.loadConfig(ctx).MentionsQuantization()) {
				return f.tensors[companion].Name
			}
		}
	}
	return nil
}
