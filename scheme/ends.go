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

// presentEnds returns a copy of ends without those that no tensor's name has.
func (f *finder) presentEnds(ends []string) []string {
	return slices.DeleteFunc(slices.Clone(ends), func(end string) bool { return !f.mayEndWith(end) })
}

// mayEndWith reports whether some tensor's name may end with end. It compares the part from the last dot on only, and
// so may be true if no name does.
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

// collectEnds fills f.endsFromDot with the rest of each tensor's name from its last dot on.
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
