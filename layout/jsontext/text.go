package jsontext

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// scanString reads the string whose opening quote comes next, and returns where it is. It sets s's error if the string is invalid.
func (s *Scanner[T]) scanString() span {
	start := s.at + 1
	end, ascii := endOfPlain(s.text, start)
	if !ascii || end >= len(s.text) || s.text[end] != '"' {
		return s.scanOtherString(start, end, ascii)
	}
	s.at = end + 1
	return span{uint32(start), uint32(end)}
}

// scanOtherString reads a string with escapes or characters beyond ASCII from start on, behind its
// opening quote, or says why there is none. end and ascii are of the plain text at start.
func (s *Scanner[T]) scanOtherString(start, end int, ascii bool) span {
	var escapes uint32
	for i := start; s.err == nil; {
		if !ascii && !isUTF8(s.text[i:end]) {
			s.notUTF8(i, end)
			break
		}
		switch {
		case end == len(s.text):
			s.Fail(s.base+uint64(start)-1, layout.ErrInvalid, "string that does not end")
			return span{}
		case s.text[end] == '"':
			s.at = end + 1
			return span{uint32(start), uint32(end) | escapes}
		case s.text[end] < ' ':
			s.Fail(s.base+uint64(end), layout.ErrInvalid, "control character %#02x in a string", s.text[end])
			return span{}
		}
		_, n := unescape(s.text[end:])
		if n == 0 {
			s.Fail(s.base+uint64(end), layout.ErrInvalid, "invalid escape %q in a string", string(s.text[end:min(end+6, len(s.text))]))
		}
		i, escapes = end+n, escaped
		end, ascii = endOfPlain(s.text, i)
	}
	return span{}
}

// stringAt returns the characters of a string that scanString has read.
func (s *Scanner[T]) stringAt(k span) T {
	if k.end >= escaped {
		return s.unescaped(k)
	}
	return s.text[k.at:k.end]
}

// unescaped returns a copy of a string without its escapes. The text may be mapped and have
// changed since scanString read it: what is no escape any more becomes U+FFFD.
func (s *Scanner[T]) unescaped(k span) T {
	raw := s.text[k.at : k.end&^escaped]
	s.buf = s.buf[:0]
	for {
		end, _ := endOfPlain(raw, 0)
		s.buf = append(s.buf, raw[:end]...)
		if end == len(raw) {
			return T(string(s.buf)) // a copy, because s.buf is used again
		}
		r, n := unescape(raw[end:])
		if n == 0 {
			r, n = utf8.RuneError, 1
		}
		s.buf = utf8.AppendRune(s.buf, r)
		raw = raw[end+n:]
	}
}

// notUTF8 fails because of an invalid byte in s.text[from:end]. A mapped text may have changed
// by now: then the first byte is to blame.
func (s *Scanner[T]) notUTF8(from, end int) {
	bad := from
	for i := from; i < end; {
		r, n := utf8.DecodeRuneInString(string(s.text[i:min(end, i+utf8.UTFMax)]))
		if r == utf8.RuneError && n == 1 {
			bad = i
			break
		}
		i += n
	}
	s.Fail(s.base+uint64(bad), layout.ErrInvalid, "string that is not valid UTF-8: %#02x", s.text[bad])
}

// isUTF8 reports whether text is valid UTF-8.
func isUTF8[T string | []byte](text T) bool {
	switch text := any(text).(type) {
	case []byte:
		return utf8.Valid(text)
	default:
		return utf8.ValidString(text.(string))
	}
}

// endOfPlain returns the position of the first byte at or after i that does not stand for
// itself in a string: a quote, a backslash or a control character. ascii is false if there may be
// bytes of 0x80 and above before it.
func endOfPlain[T string | []byte](text T, i int) (end int, ascii bool) {
	var seen byte
	for ; i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' '; i++ {
		seen |= text[i]
	}
	return i, seen < utf8.RuneSelf
}

// unescape returns the character that the n bytes of an escape at the beginning of text stand
// for. n is 0 if there is none, or half of a surrogate pair.
func unescape[T string | []byte](text T) (r rune, n int) {
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
func hex4[T string | []byte](text T) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(u), err == nil
}
