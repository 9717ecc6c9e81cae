package jsontext

import (
	"encoding/json"

	"github.com/tensormap/tensormap/layout"
)

// MaxValues is the largest number of values that Parse makes of a text: members of objects and elements of arrays. Every value
// takes up to 80 bytes of memory. A vocabulary of 256,000 tokens and its merges have fewer than half of them.
const MaxValues = 1 << 21

// Parse reads an object, keeping the order of keys and every digit of numbers. at is the offset of text in its file, of format f,
// and field its name there, both for errors. A key that occurs twice in one object is an error at its opening quote. More than
// MaxValues values are layout.ErrLimit.
//
// Values are nil, bool, string, [json.Number], [layout.Metadata] and []any. Parse copies the text once. Keys, strings without
// escapes and numbers are substrings of the copy, which stays in memory as long as one of them.
func Parse[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	s := New(text, f, at, field, lim)
	return s.document()
}

// ParsePython reads an object as Parse does, but a value may be NaN, Infinity or -Infinity, as Python's json writes floats.
// It becomes the string that [layout.Metadata.MarshalJSON] writes for such a float.
func ParsePython[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	s := New(text, f, at, field, lim)
	s.python = true
	return s.document()
}

// ParseLastWins reads an object as Parse does, but a key may occur twice. The last value counts, in the place of the first.
func ParseLastWins[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	s := New(text, f, at, field, lim)
	s.lastWins = true
	return s.document()
}

// ParseValue reads any value as Parse reads an object.
func ParseValue[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (any, error) {
	s := New(text, f, at, field, lim)
	if _, err := s.check(); err != nil {
		return nil, err
	}
	return s.any(), nil
}

// Check returns the error that Parse would, and makes no values.
func Check[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) error {
	s := New(text, f, at, field, lim)
	_, err := s.checkObject()
	return err
}

// document returns the object that the text is. It fails if the text is something else, or invalid.
func (s *Scanner) document() (layout.Metadata, error) {
	members, err := s.checkObject()
	if err != nil {
		return nil, err
	}
	return s.object(members), nil
}

// checkObject returns the number of members of the object that the text is. It fails if the text is something else, or invalid. It does not
// advance s.
func (s *Scanner) checkObject() (members int, err error) {
	if s.err == nil && s.Next() != '{' {
		s.Unexpected("an object")
	}
	return s.check()
}

// check fails unless the text is one valid value, of MaxValues values at most. It returns the number of members or elements of that value. It
// does not advance s.
func (s *Scanner) check() (n int, err error) {
	ahead := *s
	ahead.maxValues = 1 + MaxValues // the text itself is none of them
	ahead.allowsRepeats = s.lastWins
	n = ahead.Skip()
	ahead.End()
	s.allowsRepeats = true // they have been checked
	return n, ahead.Err()
}

// count returns the number of members or elements of the object or array that comes next. So a text is passed once more for every
// level of nesting but the outermost. Limits.Depth allows 64 levels.
func (s *Scanner) count() int {
	ahead := *s
	return ahead.Skip()
}

// any reads the next value of a text that has been checked.
func (s *Scanner) any() any {
	switch s.Next() {
	case '"':
		return s.Text()
	case '{':
		return s.object(s.count())
	case '[':
		return s.array()
	case 't', 'f':
		return s.take("true") || !s.take("false")
	case 'n':
		s.take("null")
		return nil
	}
	if text := s.notFinite(); text != "" {
		return text
	}
	return s.number()
}

// object reads the object that comes next, of this number of members.
func (s *Scanner) object(members int) layout.Metadata {
	md := make(layout.Metadata, 0, members)
	for key := range s.Members("an object") {
		md = append(md, layout.Entry{Key: key, Value: s.any()})
	}
	if s.lastWins {
		all := md
		md = make(layout.Metadata, 0, len(all))
		md.Merge(all)
	}
	return md
}

// array reads the array that comes next.
func (s *Scanner) array() []any {
	list := make([]any, 0, s.count())
	for s.Open('[', "an array"); s.More(']'); {
		list = append(list, s.any())
	}
	return list
}

// digits are the numbers of one digit. As values they share their memory, which else would be 16 bytes for 2 of text.
var digits = [...]any{
	json.Number("0"), json.Number("1"), json.Number("2"), json.Number("3"), json.Number("4"),
	json.Number("5"), json.Number("6"), json.Number("7"), json.Number("8"), json.Number("9"),
}

// number reads the number that comes next, as a json.Number.
func (s *Scanner) number() any {
	text := s.Number()
	if len(text) == 1 {
		return digits[text[0]-'0']
	}
	return json.Number(text)
}
