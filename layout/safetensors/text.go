package safetensors

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// text reads the string whose opening quote stands next. The result is a slice of the
// header or, where the string has escapes, memory of its own.
func (s *scanner) text() ([]byte, error) {
	start := s.i + 1
	end, ascii := plain(s.b, start)
	if end == len(s.b) || s.b[end] != '"' {
		return s.escaped(start)
	}
	t := s.b[start:end:end]
	if !ascii && !utf8.Valid(t) {
		return nil, s.notUTF8(start, t)
	}
	s.i = end + 1
	return t, nil
}

// plain is the position of the first byte at or after i that is no part of a string as
// it stands there: a quote, a backslash or a control character. ascii is false if there
// may be bytes of 0x80 and above before it.
func plain(b []byte, i int) (end int, ascii bool) {
	const high = 0x8080808080808080
	var seen uint64
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if m := special(w); m != 0 {
			return i + bits.TrailingZeros64(m)/8, (seen|w)&high == 0
		}
		seen |= w
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; i++ {
		seen |= uint64(b[i])
	}
	return i, seen&high == 0
}

// special has bit 7 set in the lowest byte of w that is a quote, a backslash or below
// 0x20; bytes above that one may be marked wrongly, by a borrow.
func special(w uint64) uint64 {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	return ((w ^ '"'*ones - ones) | (w ^ '\\'*ones - ones) | (w - ' '*ones)) &^ w & high
}

// notUTF8 is the error about t, which begins at start. By now t may be valid: the header may
// be mapped, and change.
func (s *scanner) notUTF8(start int, t []byte) error {
	for at := 0; at < len(t); {
		r, n := utf8.DecodeRune(t[at:])
		if r == utf8.RuneError && n == 1 {
			return s.errorf(start+at, layout.ErrInvalid, "string is not valid UTF-8: byte %#02x", t[at])
		}
		at += n
	}
	return s.errorf(start, layout.ErrInvalid, "string is not valid UTF-8")
}

// escaped reads a string with escapes, from start behind its opening quote, or says why
// there is none.
func (s *scanner) escaped(start int) ([]byte, error) {
	var out []byte
	for i := start; ; {
		end, ascii := plain(s.b, i)
		if run := s.b[i:end]; !ascii && !utf8.Valid(run) {
			return nil, s.notUTF8(i, run)
		}
		out = append(out, s.b[i:end]...)
		switch {
		case end == len(s.b):
			return nil, s.errorf(start-1, layout.ErrInvalid, "string that does not end")
		case s.b[end] == '"':
			s.i = end + 1
			return out, nil
		case s.b[end] < ' ':
			return nil, s.errorf(end, layout.ErrInvalid, "control character %#02x in a string", s.b[end])
		}
		r, n := layout.UnescapeJSON(s.b[end:])
		if n == 0 {
			return nil, s.errorf(end, layout.ErrInvalid, "invalid escape %q in a string", s.b[end:min(end+6, len(s.b))])
		}
		out = utf8.AppendRune(out, r)
		i = end + n
	}
}
