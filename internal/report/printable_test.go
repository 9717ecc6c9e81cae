package report

import (
	"testing"
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
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
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
		if got := Shorten(test.s, test.width); got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.s, test.width, got, test.want)
		}
	}
}
