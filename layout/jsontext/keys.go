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
		left := len(s.text) - s.at
		more := int(float64(n) / float64(s.at) * float64(left))
		if s.groups != nil { // more are an error
			more = min(more, left/memberBytes)
		}
		s.keys = slices.Grow(s.keys, more+more/16+many)
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
			s.twice(k, name)
			break
		}
	}
	return ok
}

// twice fails because of a key that is name, as one before it.
func (s *Scanner[T]) twice(k span, name T) {
	s.Fail(s.base+uint64(k.at)-1, layout.ErrDuplicate, "key %s occurs twice", layout.Quote([]byte(name)))
}

// Names reads an object and returns its keys, and a number for the value of each. It takes memory for about so many at
// first. read reads a value and returns its number. It is not asked again for a value that is written as the one before;
// ok is false if that must be read.
func Names(s *Scanner[[]byte], want string, about int, read func(name []byte) (number uint32, ok bool)) (names *layout.NameList, numbers []uint32) {
	before := *s
	names, numbers = &layout.NameList{Text: slices.Clip(s.text), Spans: make([]layout.Span, 0, about)}, make([]uint32, 0, about)
	var number uint32
	var written []byte // the colon and the value that has this number
	for s.Open('{', want); ; {
		k, again := s.again(written)
		if !again {
			if !s.More('}') {
				break
			}
			k = s.key()
			name, at := s.value(k), s.at
			if s.err != nil {
				break
			}
			var ok bool
			if number, ok = read(name); ok && s.err == nil {
				written = s.text[at-len(":") : s.at]
			} else {
				written = nil
			}
			if k.end >= escaped { // written out behind the text, twice as long then at most
				k = span{uint32(len(names.Text)), uint32(len(names.Text) + len(name))}
				names.Text = append(names.Text, name...)
			}
		}
		names.Spans, numbers = append(names.Spans, layout.Span{At: k.at, End: k.end}), append(numbers, number)
	}
	if s.err == nil && !names.Distinct() {
		*s = before
		s.Skip() // which fails at the second of the two
	}
	return names, numbers
}

// again reads a comma, a key without escapes and, behind it, what is written. It reports false for anything else, and
// reads nothing then.
func (s *Scanner[T]) again(written T) (k span, ok bool) {
	at := s.at
	if len(written) > 0 && at < len(s.text) && s.text[at] == ',' {
		if s.at++; s.Next() == '"' {
			start := s.at + 1
			end, ascii := plainText(s.text, start)
			next := end + 1 + len(written)
			if ascii && next < len(s.text) && s.text[end] == '"' && string(s.text[end+1:next]) == string(written) && ends(s.text[next]) {
				s.at = next
				return span{uint32(start), uint32(end)}, true
			}
		}
	}
	s.at = at
	return k, false
}

// ends reports whether a value that c follows is complete, be it a number.
func ends(c byte) bool { return c == ',' || c == '}' || c <= ' ' }

// filed reports whether name, that of key i, is the name of a key before it. If it is not, it
// enters names.
func (s *Scanner[T]) filed(names *layout.Names, keys []span, i int, name T) bool {
	same := func(k span) bool { return string(s.value(k)) == string(name) }
	if names == nil {
		return slices.ContainsFunc(keys[:i], same)
	}
	return names.Enter(hash(name), i, func(j int) bool { return same(keys[j]) }) >= 0
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
