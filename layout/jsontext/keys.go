package jsontext

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// checkDistinct fails at the first of s.keys[first:], the keys of one object, that equals an earlier one. It removes them from
// s.keys.
func (s *Scanner) checkDistinct(first int) {
	keys := s.keys[first:]
	s.keys = s.keys[:first]
	const maxLinear = 16 // as many keys are compared faster one by one
	var seen map[string]bool
	if len(keys) > maxLinear && s.err == nil {
		seen = make(map[string]bool, len(keys))
	}
	for i := 0; i < len(keys) && s.err == nil; i++ {
		name := s.stringAt(keys[i])
		repeated := seen[name]
		if seen != nil {
			seen[name] = true
		} else {
			repeated = slices.ContainsFunc(keys[:i], func(earlier span) bool { return s.stringAt(earlier) == name })
		}
		if repeated {
			s.Fail(s.base+uint64(keys[i].at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote(name))
		}
	}
}
