package jsontext

import (
	"iter"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Members reads an object and yields its keys, which must differ, with their offsets. Offset is then the offset of the
// key's value. A value that the loop's body does not read is skipped.
func (s *Scanner) Members(want string) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		first := len(s.keys)
		for s.Open('{', want); s.More('}'); {
			k := s.memberKey()
			s.Next()
			at := s.at
			if s.err != nil || !yield(s.stringAt(k), s.base+uint64(k.at)-1) {
				return
			}
			if s.at == at && s.err == nil {
				s.Skip()
			}
		}
		s.checkDistinct(first)
	}
}

// Record reads an object that must have all of fields, and may have other keys. read reads the
// value of field i, under whose name errors are then. A missing field is an error at offset at.
func (s *Scanner) Record(at uint64, want string, fields []string, read func(i int)) {
	const limit = 16
	var seen [limit]bool
	outer := s.Field
	for key := range s.Members(want) {
		i := slices.Index(fields, key)
		if i < 0 {
			continue
		}
		seen[i], s.Field = true, fields[i]
		read(i)
		s.Field = outer
	}
	if i := slices.Index(seen[:len(fields)], false); i >= 0 && s.err == nil {
		s.Field = fields[i]
		s.Fail(at, layout.ErrInvalid, "no %s", fields[i])
		s.Field = outer
	}
}

// Shape reads an array of dimensions into the memory of dst. More than limit are an error.
func (s *Scanner) Shape(dst []int, limit uint64) []int {
	dst = dst[:0]
	for s.Open('[', "an array"); s.More(']'); {
		if uint64(len(dst)) == limit {
			s.Fail(s.Offset(), layout.ErrLimit, "more than %d dimensions", limit)
		}
		s.Next()
		at := s.Offset()
		n := s.Uint()
		if n > math.MaxInt {
			s.Fail(at, layout.ErrInvalid, "dimension %d is %d, beyond %d", len(dst), n, math.MaxInt)
		}
		dst = append(dst, int(n))
	}
	return dst
}
