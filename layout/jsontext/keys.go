package jsontext

import "github.com/tensormap/tensormap/layout"

// memberKey reads a key and its colon as key does. It also appends the key to s.keys, for checkDistinct, unless keys may occur twice.
func (s *Scanner) memberKey() stringRange {
	k := s.key()
	if !s.allowsRepeats {
		s.keys = append(s.keys, k)
	}
	return k
}

// checkDistinct fails at the first of s.keys[first:], the keys of one object, that equals an earlier one. It removes them from
// s.keys.
func (s *Scanner) checkDistinct(first int) {
	keys := s.keys[first:]
	s.keys = s.keys[:first]
	const maxLinear = 16 // as many keys are compared faster one by one
	var names *layout.Names
	if len(keys) > maxLinear && s.err == nil {
		names = layout.NewNames(len(keys)) // which takes less memory than a map: a key may be 5 bytes of the text
	}
	for i := 0; i < len(keys) && s.err == nil; i++ {
		name, repeated := s.stringAt(keys[i]), false
		isNamed := func(j int) bool { return s.stringAt(keys[j]) == name }
		if names != nil {
			repeated = names.Enter(layout.HashName(name), i, isNamed) >= 0
		}
		for j := 0; j < i && names == nil && !repeated; j++ {
			repeated = isNamed(j)
		}
		if repeated {
			s.Fail(s.base+uint64(keys[i].at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote(name))
		}
	}
}
