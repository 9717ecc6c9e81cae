// Package jsontext reads JSON (RFC 8259) from files that nobody vouches for: the header of
// SafeTensors, manifests and indexes, metadata.
//
// A [Scanner] reads a copy of a text, front to back. [Parse] makes [layout.Metadata] of an object. [Locate] finds a value for an error that is
// about it.
//
// All of them are stricter than encoding/json. Invalid UTF-8, half of a surrogate pair in an
// escape, nesting past the limit and bytes after the value are errors.
package jsontext

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Scanner reads a text value by value. After its first error [Scanner.More] reports
// false and the other methods return zero values. A reader of objects and arrays asks
// [Scanner.Err] once.
type Scanner struct {
	// Field names what is read in errors.
	Field string

	text   string // empty after an error
	at     int    // the next byte
	base   uint64
	format layout.Format
	err    *layout.FormatError

	depth, maxDepth uint64 // of the objects and arrays around the next byte
	atFirst         bool   // no member or element of the innermost one was read
	allowsRepeats   bool   // Members and Skip do not look for keys that occur twice in an object
	python          bool   // NaN, Infinity and -Infinity are numbers
	lastWins        bool   // an object that becomes a value has the last of the values of a key that occurs twice
	values          int    // that Skip has passed
	maxValues       int    // that Skip may pass; 0 for any number

	keys []stringRange // of the objects being read whose keys must differ
}

// stringRange is where a string lies between its quotes.
type stringRange struct {
	at  uint32
	end uint32 // and whether there are escapes, in the highest bit
}

const escaped = 1 << 31

// New returns a scanner of text, which lies at offset at of a file of format f. field names it
// in errors. A text longer than lim.HeaderBytes is an error, as is nesting past lim.Depth.
// Bytes are copied, because they may be mapped and change.
func New[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) Scanner {
	s := Scanner{Field: field, base: at, format: f, maxDepth: lim.Depth}
	if limit := min(lim.HeaderBytes, math.MaxInt32); uint64(len(text)) > limit { // positions have 32 bits
		s.Fail(at, layout.ErrHeader, "%d bytes of JSON, more than %d", len(text), limit)
		return s
	}
	s.text = string(text)
	return s
}

// Err returns the first error, a [*layout.FormatError], or nil.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Fail ends the reading with an error about the byte at offset at of the file, unless it has
// ended with another before.
func (s *Scanner) Fail(at uint64, sentinel error, format string, args ...any) {
	if s.err == nil {
		s.err = layout.Errorf(s.format, at, s.Field, sentinel, format, args...)
	}
	s.text, s.at, s.atFirst = "", 0, false
}

// Unexpected ends the reading because something else than want comes next.
func (s *Scanner) Unexpected(want string) {
	found := "the end of the JSON"
	if rest := s.Rest(); rest != "" {
		r, n := utf8.DecodeRuneInString(rest)
		found = fmt.Sprintf("%q", r)
		if r == utf8.RuneError && n == 1 {
			found = fmt.Sprintf("invalid UTF-8: %#02x", rest[0])
		}
	}
	s.Fail(s.Offset(), layout.ErrInvalid, "%s where %s should be", found, want)
}

// Offset returns the position in the file of the next byte.
func (s *Scanner) Offset() uint64 { return s.base + uint64(s.at) }

// Rest returns the text from the next byte on.
func (s *Scanner) Rest() string { return s.text[s.at:] }

// Advance skips the first n bytes of Rest, which the caller has read by itself.
func (s *Scanner) Advance(n int) { s.at += n }

// Next skips white space and returns the byte after it, without reading it. At the end it
// returns 0, which no value starts with.
func (s *Scanner) Next() byte {
	if s.at < len(s.text) && s.text[s.at] > ' ' {
		return s.text[s.at]
	}
	return s.nextAfterSpace()
}

// nextAfterSpace does what Next does for text that may begin with white space.
func (s *Scanner) nextAfterSpace() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// End makes sure that nothing but white space comes next.
func (s *Scanner) End() {
	if s.Next(); s.at < len(s.text) {
		s.Fail(s.Offset(), layout.ErrInvalid, "bytes after the JSON")
	}
}

// Open reads c, an opening bracket or brace. [Scanner.More] then leads through what it holds:
//
//	for s.Open('[', "an array"); s.More(']'); {
//		… read one element …
//	}
func (s *Scanner) Open(c byte, want string) {
	switch {
	case s.Next() != c:
		s.Unexpected(want)
	case s.depth >= s.maxDepth:
		s.Fail(s.Offset(), layout.ErrLimit, "JSON nested deeper than %d", s.maxDepth)
	default:
		s.depth++
		s.at++
		s.atFirst = true
	}
}

// More moves to the next element of an array or member of an object, or past its end.
func (s *Scanner) More(end byte) bool {
	switch c := s.Next(); {
	case c == end:
		s.at++
		s.depth--
		s.atFirst = false
		return false
	case s.atFirst:
		s.atFirst = false
		return true
	case c == ',':
		s.at++
		return true
	}
	s.Unexpected("',' or '" + string(end) + "'")
	return false
}

// Key reads a key and its colon. It returns the key's offset too.
func (s *Scanner) Key() (name string, at uint64) {
	k := s.key()
	return s.stringAt(k), s.base + uint64(k.at) - 1
}

// key reads a key and its colon, and returns where the key stands.
func (s *Scanner) key() stringRange {
	if s.Next() != '"' {
		s.Unexpected("a key")
		return stringRange{}
	}
	k := s.scanString()
	if s.Next() != ':' {
		s.Unexpected("':'")
		return stringRange{}
	}
	s.at++
	return k
}

// Text reads a string. It allocates memory if the string has escapes, and else returns a part of the scanner's text: who stores it clones
// it, unless all of the text may stay in memory as long.
func (s *Scanner) Text() string {
	if s.Next() != '"' {
		s.Unexpected("a string")
	}
	return s.stringAt(s.scanString())
}

// Number reads a number and returns it as it is written.
func (s *Scanner) Number() string {
	s.Next()
	text, i := s.text, s.at
	if i < len(text) && text[i] == '-' {
		i++
	}
	end := skipDigits(text, i)
	ok := end > i
	if ok && text[i] == '0' {
		end = i + 1 // another digit is no part of it
	}
	if ok && end < len(text) && text[end] == '.' {
		i = end + 1
		end = skipDigits(text, i)
		ok = end > i
	}
	if ok && end < len(text) && text[end]|0x20 == 'e' {
		i = end + 1
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		end = skipDigits(text, i)
		ok = end > i
	}
	start := s.at
	s.at = end
	if !ok {
		s.Unexpected("a digit")
		return ""
	}
	return text[start:end]
}

// skipDigits returns the position of the first byte of text, from i on, that is no digit.
func skipDigits(text string, i int) int {
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return i
}

// Decimal returns the value of the digits at the start of text, and how many there are. Past 19
// digits the value means nothing.
func Decimal(text string) (v uint64, digits int) {
	for i := range len(text) {
		c := text[i] - '0'
		if c > 9 {
			return v, i
		}
		v = v*10 + uint64(c)
	}
	return v, len(text)
}

// Uint reads an integer that fits 64 bits and has neither sign, fraction nor exponent.
func (s *Scanner) Uint() uint64 {
	if c := s.Next(); c < '0' || c > '9' {
		s.Unexpected("a non-negative integer")
		return 0
	}
	rest := s.Rest()
	v, n := Decimal(rest)
	shown := func() string { return rest[:min(n, 40)] }
	switch {
	case n < len(rest) && (rest[n] == '.' || rest[n]|0x20 == 'e'):
		s.Fail(s.Offset(), layout.ErrInvalid, "%s%c… is a number with a fraction or an exponent", shown(), rest[n])
	case n > 1 && rest[0] == '0':
		s.Fail(s.Offset(), layout.ErrInvalid, "integer %s has leading zeros", shown())
	case n > 20 || n == 20 && (rest[0] > '1' || v < 1e19):
		// Twenty digits from 10^19 on fit if they begin with 1 and did not wrap around.
		s.Fail(s.Offset(), layout.ErrInvalid, "integer %s (%d digits) does not fit 64 bits", shown(), n)
	default:
		s.at += n
		return v
	}
	return 0
}

// take reads token if it comes next, and reports whether it does.
func (s *Scanner) take(token string) bool {
	if !strings.HasPrefix(s.Rest(), token) {
		return false
	}
	s.at += len(token)
	return true
}

// notFinite reads NaN, Infinity or -Infinity, which Python writes and JSON does not have, and returns the text. It returns "" if none comes
// next, or the scanner does not read Python's.
func (s *Scanner) notFinite() string {
	for _, text := range [...]string{"NaN", "Infinity", "-Infinity"} {
		if s.python && s.take(text) {
			return text
		}
	}
	return ""
}

// Skip reads any value and checks it, keys that occur twice included. It returns the number of members or elements.
func (s *Scanner) Skip() (n int) {
	if s.values++; s.maxValues > 0 && s.values > s.maxValues {
		s.Fail(s.Offset(), layout.ErrLimit, "more than %d values", s.maxValues)
	}
	switch c := s.Next(); {
	case c == '"':
		s.scanString()
	case s.notFinite() != "":
	case c == '-' || c-'0' <= 9:
		s.Number()
	case c == '{':
		first := len(s.keys)
		for s.Open('{', "an object"); s.More('}'); n++ {
			s.memberKey() // Members would allocate memory for each key with escapes
			s.Skip()
		}
		s.checkDistinct(first)
	case c == '[':
		for s.Open('[', "an array"); s.More(']'); n++ {
			s.Skip()
		}
	case s.take("true"), s.take("false"), s.take("null"):
	default:
		s.Unexpected("a value")
	}
	return n
}
