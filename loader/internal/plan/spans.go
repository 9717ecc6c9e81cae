package plan

import (
	"cmp"
	"slices"
)

// span is the bytes of a file from off up to end.
type span struct{ off, end uint64 }

// spans is a set of bytes: ascending spans that neither overlap nor touch.
type spans []span

// add puts s into the set, and returns the spans that are new to it.
func (l *spans) add(s span) (fresh []span) {
	if s.off >= s.end {
		return nil
	}
	// Those from i to j-1 become one with s.
	i, _ := slices.BinarySearchFunc(*l, s.off, func(x span, off uint64) int { return cmp.Compare(x.end, off) })
	j := i
	whole, at := s, s.off
	for ; j < len(*l) && (*l)[j].off <= s.end; j++ {
		x := (*l)[j]
		if at < x.off {
			fresh = append(fresh, span{at, x.off})
		}
		at = max(at, x.end)
		whole = span{min(whole.off, x.off), max(whole.end, x.end)}
	}
	if at < s.end {
		fresh = append(fresh, span{at, s.end})
	}
	*l = slices.Replace(*l, i, j, whole)
	return fresh
}
