package jsontext

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// scanString reads the string whose opening quote comes next, and returns where it is. It sets s's error if the string is invalid.
func (s *Scanner) scanString() stringRange {
	start := s.at + 1
	var escapes uint32
	for i := start; s.err == nil; {
		end, ascii := endOfPlain(s.text, i)
		switch {
		case !ascii && !utf8.ValidString(s.text[i:end]):
			s.notUTF8(i)
		case end == len(s.text):
			s.Fail(s.base+uint64(start)-1, layout.ErrInvalid, "string that does not end")
		case s.text[end] == '"':
			s.at = end + 1
			return stringRange{uint32(start), uint32(end) | escapes}
		case s.text[end] < ' ':
			s.Fail(s.base+uint64(end), layout.ErrInvalid, "control character %#02x in a string", s.text[end])
		default:
			_, n := unescape(s.text[end:])
			if n == 0 {
				s.Fail(s.base+uint64(end), layout.ErrInvalid, "invalid escape %q in a string", s.text[end:min(end+6, len(s.text))])
			}
			i, escapes = end+n, escaped
		}
	}
	return stringRange{}
}

// stringAt returns the characters of a string that scanString has read. It allocates memory if the string has escapes.
func (s *Scanner) stringAt(k stringRange) string {
	if k.end < escaped {
		return s.text[k.at:k.end]
	}
	raw := s.text[k.at : k.end&^escaped]
	var b strings.Builder
	b.Grow(len(raw)) // no escape is shorter than its character
	for raw != "" {
		end, _ := endOfPlain(raw, 0)
		b.WriteString(raw[:end])
		if raw = raw[end:]; raw != "" {
			r, n := unescape(raw)
			b.WriteRune(r)
			raw = raw[n:]
		}
	}
	return b.String()
}

// notUTF8 fails because of the first byte from position i on that is not UTF-8. The caller has made sure that there is one.
func (s *Scanner) notUTF8(i int) {
	for {
		r, n := utf8.DecodeRuneInString(s.text[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	s.Fail(s.base+uint64(i), layout.ErrInvalid, "string that is not valid UTF-8: %#02x", s.text[i])
}

// endOfPlain returns the position of the first byte at or after i that does not stand for
// itself in a string: a quote, a backslash or a control character. ascii is false if there may be
// bytes of 0x80 and above before it.
func endOfPlain(text string, i int) (end int, ascii bool) {
	var seen byte
	for ; i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' '; i++ {
		seen |= text[i]
	}
	return i, seen < utf8.RuneSelf
}

// unescape returns the character that the n bytes of an escape at the beginning of text stand
// for. n is 0 if there is none, or half of a surrogate pair.
func unescape(text string) (r rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	const letters, characters = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(letters, text[1]); i >= 0 {
		return rune(characters[i]), 2
	}
	r, ok := hex4(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, _ := hex4(text[6:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0 // no pair stands for U+FFFD
	}
	return r, 12
}

// hex4 returns the character of an escape \uXXXX at the start of text. It reports false if there is none.
func hex4(text string) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(u), err == nil
}
