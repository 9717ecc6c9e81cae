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
	const few = 16 // so few are compared faster one by one
	keys := s.keys[first:]
	s.keys = s.keys[:first]
	var names *layout.Names
	if len(keys) > few {
		names = layout.NewNames(len(keys))
	}
	return s.file(names, keys)
}

// file enters keys, those of one object, into names, which is nil if they are few. It fails if two are the same.
// It reports false if they are and may be.
func (s *Scanner[T]) file(names *layout.Names, keys []span) bool {
	if s.err != nil {
		return true
	}
	ok := true
	for i, k := range keys {
		name := s.value(k)
		if !s.filed(names, keys, i, name) {
			continue
		}
		if ok = false; !s.lastWins {
			s.Fail(s.base+uint64(k.at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote([]byte(name)))
			break
		}
	}
	return ok
}

// Keys are the keys of one object, in its order. No two are the same.
type Keys[T string | []byte] struct {
	text  T
	spans []span
	names *layout.Names
}

// Table reads an object, and keeps its keys, for which it takes memory for about so many at first. read reads the value of
// each.
func (s *Scanner[T]) Table(want string, about int, read func(key T)) Keys[T] {
	outer := s.keys
	s.keys = make([]span, 0, about)
	for s.Open('{', want); s.More('}'); {
		k := s.key()
		if s.keys = append(s.keys, k); s.err == nil {
			read(s.value(k))
		}
	}
	keys := Keys[T]{s.text, s.keys, layout.NewNames(len(s.keys))}
	s.keys = outer
	s.file(keys.names, keys.spans)
	return keys
}

// Len returns the number of keys.
func (k *Keys[T]) Len() int { return len(k.spans) }

// At returns key i. It copies nothing but a key with escapes.
func (k *Keys[T]) At(i int) T {
	x := k.spans[i]
	if x.end < escaped {
		return k.text[x.at:x.end]
	}
	return (&Scanner[T]{text: k.text}).unescaped(x)
}

// Find returns the position of a key, or -1.
func (k *Keys[T]) Find(key T) int {
	for p := k.names.Probe(hash(key)); ; {
		if i, ok := p.Next(); !ok {
			return -1
		} else if string(k.At(i)) == string(key) {
			return i
		}
	}
}

// Escaped reports whether a key has an escape.
func (k *Keys[T]) Escaped() bool {
	return slices.ContainsFunc(k.spans, func(x span) bool { return x.end >= escaped })
}

// Names returns the table that finds the keys.
func (k *Keys[T]) Names() *layout.Names { return k.names }

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
