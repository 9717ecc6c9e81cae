package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is s with everything escaped, as in a Go string, that could do more to a
// terminal than show a character: control characters (newline among them), escape
// sequences, changes of direction, bytes that are not UTF-8.
func printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unprintable(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// printableJSON does for a JSON text what printable does for a string. Outside of strings
// JSON has no such characters, so the escapes of strings can replace them anywhere.
func printableJSON(text []byte) []byte {
	if bytes.IndexFunc(text, steersTerminal) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if steersTerminal(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// steersTerminal knows the characters that encoding/json leaves as they are though a
// terminal may obey them; all lie in Unicode's first plane.
func steersTerminal(r rune) bool {
	return 0x7f <= r && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r)
}

// shorten cuts the middle out of s if it is longer than width characters.
func shorten(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width || width < 3 {
		return s
	}
	runes := []rune(s)
	tail := (width - 1) / 2
	head := width - 1 - tail
	return string(runes[:head]) + "…" + string(runes[n-tail:])
}
