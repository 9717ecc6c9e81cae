package jsontext

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// remember keeps a key until [Scanner.distinct] is called for its object.
func (s *Scanner[T]) remember(k span) {
	const many = 1 << 10
	if n := len(s.keys); n == cap(s.keys) && n >= many && s.at > 0 {
		// Room for as many keys in what is left, so that memory is not copied many times.
		s.keys = slices.Grow(s.keys, int(float64(n)/float64(s.at)*float64(len(s.text)-s.at))+many)
	}
	s.keys = append(s.keys, k)
}

// distinct fails if two of s.keys[first:], the keys of one object, are the same, and forgets
// them. It reports false if they are and may be.
func (s *Scanner[T]) distinct(first int) bool {
	keys := s.keys[first:]
	s.keys = s.keys[:first]
	if s.err != nil {
		return true
	}
	const few = 16 // so few are compared faster one by one
	var names *layout.Names
	if len(keys) > few {
		names = layout.NewNames(len(keys))
	}
	ok := true
	for i, k := range keys {
		name := s.value(k)
		if !s.filed(names, keys, i, name) {
			continue
		}
		if ok = false; !s.lastWins {
			s.Fail(s.base+uint64(k.at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote([]byte(name)))
			return false
		}
	}
	return ok
}

// filed reports whether name, that of key i, is the name of a key before it. If it is not, it
// enters names.
func (s *Scanner[T]) filed(names *layout.Names, keys []span, i int, name T) bool {
	same := func(k span) bool { return string(s.value(k)) == string(name) }
	if names == nil {
		return slices.ContainsFunc(keys[:i], same)
	}
	for p := names.Probe(hash(name)); ; {
		j, ok := p.Next()
		if !ok {
			p.Add(i)
			return false
		}
		if same(keys[j]) {
			return true
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
