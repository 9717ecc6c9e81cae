package jsontext

import "github.com/tensormap/tensormap/layout"

// checkDistinct fails at the first of s.keys[first:], the keys of one object, that equals an earlier one. It removes them from
// s.keys.
func (s *Scanner[T]) checkDistinct(first int) {
	keys := s.keys[first:]
	s.keys = s.keys[:first]
	const maxLinear = 16 // as many keys are compared faster one by one
	var names *layout.Names
	if len(keys) > maxLinear && s.err == nil {
		names = layout.NewNames(len(keys))
	}
	for i := 0; i < len(keys) && s.err == nil; i++ {
		name, repeated := s.stringAt(keys[i]), false
		equals := func(j int) bool { return string(s.stringAt(keys[j])) == string(name) }
		if names != nil {
			repeated = names.Enter(hash(name), i, equals) >= 0
		}
		for j := 0; j < i && names == nil && !repeated; j++ {
			repeated = equals(j)
		}
		if repeated {
			s.Fail(s.base+uint64(keys[i].at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote([]byte(name)))
		}
	}
}

// hash returns the hash of a name in [layout.Names].
func hash[T string | []byte](name T) uint64 {
	switch name := any(name).(type) {
	case []byte:
		return layout.HashNameBytes(name)
	default:
		return layout.HashName(name.(string))
	}
}
