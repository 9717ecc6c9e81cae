package layout

import (
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// plainText is the position of the first byte at or after i that is no part of a JSON
// string as it stands there: a quote, a backslash or a control character.
func plainText(s string, i int) int {
	for ; len(s)-i >= 8; i += 8 {
		if m := notPlain(load64(s[i : i+8])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= ' ' {
		i++
	}
	return i
}

// load64 reads eight bytes, the first one lowest, which compiles to one load.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// notPlain has bit 7 set in the lowest byte of w that is a quote, a backslash or below
// 0x20; bytes above that one may be marked wrongly, by a borrow.
func notPlain(w uint64) uint64 {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	return ((w ^ '"'*ones - ones) | (w ^ '\\'*ones - ones) | (w - ' '*ones)) &^ w & high
}

// UnescapeJSON is the character that the n bytes of a JSON escape at the beginning of s stand
// for; n is 0 where there is none, or half of a surrogate pair.
func UnescapeJSON[T string | []byte](s T) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, _ := hex4(s[6:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0 // no pair stands for U+FFFD
	}
	return r, 12
}

// hex4 reads \uXXXX.
func hex4[T string | []byte](s T) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		c := s[i]
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
