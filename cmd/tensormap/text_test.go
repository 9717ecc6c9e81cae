package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"a.weight":                  "a.weight",
		`C:\models\a`:               `C:\models\a`,
		"größe/重み 🙂":                "größe/重み 🙂",
		"a\nb\tc\r":                 `a\nb\tc\r`,
		"\x1b[31m\x07\x00\x7f":      `\x1b[31m\a\x00\x7f`,
		"\u009b31m\u202eabc\u2066":  `\u009b31m\u202eabc\u2066`,
		"\xff\xfe":                  `\xff\xfe`,
		"\ufffd":                    "\ufffd",
		"\u2028\u00a0\ufeff":        `\u2028\u00a0\ufeff`,
		"a\u200b\u00ad\u034f\u3164": `a\u200b\u00ad\u034f\u3164`,
		"❤\ufe0f\U000e0041":         `❤\ufe0f\U000e0041`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEncodeJSON(t *testing.T) {
	value := "a\"\\<&>\n\x1b\x7f\u0085\u009b\u202e\u2069é🙂\u2028"
	text, err := encodeJSON(value)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"a\"\\<&>\n\u001b\u007f\u0085\u009b\u202e\u2069é🙂\u2028"`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	var back string
	if err := json.Unmarshal(text, &back); err != nil || back != value {
		t.Errorf("comes back as %q (%v)", back, err)
	}
}

// TestNothingInvisible: no character that shows nothing gets through, as text or as JSON, and
// JSON has it still.
func TestNothingInvisible(t *testing.T) {
	invisible := []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector}
	for r := range rune(unicode.MaxRune + 1) {
		if !unicode.In(r, invisible...) {
			continue
		}
		value := "a" + string(r) + "b"
		text, err := encodeJSON(value)
		if err != nil || strings.ContainsRune(string(text), r) || strings.ContainsRune(printable(value), r) {
			t.Errorf("%U: %q, %q (%v)", r, text, printable(value), err)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil || back != value {
			t.Errorf("%U: %s comes back as %q (%v)", r, text, back, err)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		s     string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab…ef"},
		{"abcdefg", 6, "abc…fg"},
		{"重重重重", 8, "重重重重"},
		{"重重重重", 7, "重…重"},
		{"重重重重", 3, "…"},
		{"重重重重重", 9, "重重…重重"},
		{"重ab重cd", 7, "重a…cd"},
		{"e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301"},
		{"abcdef", 2, "abcdef"},
		{"", 3, ""},
	} {
		if got := shorten(test.s, test.width); got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.s, test.width, got, test.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range [][2]string{
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1024), "1.00 KiB"}, {size(90868376), "86.7 MiB"}, {size(math.MaxUint64), "16.0 EiB"},
		{grouped(0), "0"}, {grouped(999), "999"}, {grouped(1000), "1,000"}, {grouped(22713216), "22,713,216"},
		{grouped(math.MaxUint64), "18,446,744,073,709,551,615"},
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1.00K"}, {count(22713216), "22.7M"}, {count(999499), "999K"},
		{count(999500), "1.00M"}, {count(7e9), "7.00B"}, {count(123e12), "123T"}, {count(math.MaxUint64), "18446744T"},
		{duration(0), "0 µs"}, {duration(12340 * time.Microsecond), "12.3 ms"}, {duration(1234 * time.Millisecond), "1.23 s"},
		{duration(119 * time.Second), "119 s"}, {duration(150*time.Second + 3), "2m30s"},
		{speed(1<<30, 500*time.Millisecond), "2.00 GiB/s"}, {speed(0, 0), "0 B/s"},
	} {
		if test[0] != test[1] {
			t.Errorf("%s, want %s", test[0], test[1])
		}
	}
}
