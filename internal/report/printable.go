package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Printable returns s with everything escaped, as in a Go string, that does not show as a
// character of its own: control characters (newline among them), escape sequences, changes
// of direction, what is invisible, bytes that are not UTF-8.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); unprintable(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.QuoteToASCII(s[i : i+n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Name returns the name of a tensor as it is shown.
func Name(name string) string { return cmp.Or(Printable(name), `""`) }

// unprintable reports whether r is no character that can be seen: a control or format
// character, a space other than ' ', or one that shows nothing though it counts as a letter
// or a mark.
func unprintable(r rune) bool {
	return !strconv.IsPrint(r) || r >= 0x80 && unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// PrintableJSON does for a JSON text what Printable does for a string. JSON has no such
// characters outside of strings, so the escapes of strings can replace them anywhere.
func PrintableJSON(text []byte) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		if !unprintable(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Shorten cuts the middle out of s if it takes more than width columns of a screen.
func Shorten(s string, width int) string { return shorten(s, width, width/2) }

// shorten does what Shorten does. head is the number of columns that the beginning takes, less than width.
func shorten(s string, width, head int) string {
	if text.StringWidth(s) <= width || width < 3 {
		return s
	}
	runes := []rune(s)
	from, tail := 0, len(runes)
	for columns := head; ; from++ {
		if columns -= text.RuneWidth(runes[from]); columns < 0 {
			break
		}
	}
	for columns := width - 1 - head; ; tail-- {
		if columns -= text.RuneWidth(runes[tail-1]); columns < 0 {
			break
		}
	}
	for tail < len(runes) && text.RuneWidth(runes[tail]) == 0 { // it belongs to a character that is left out
		tail++
	}
	return string(runes[:from]) + "…" + string(runes[tail:])
}
