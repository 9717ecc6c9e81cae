package layout_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

func TestFormatError(t *testing.T) {
	sentinels := []error{
		layout.ErrInvalid, layout.ErrTruncated, layout.ErrOverlap, layout.ErrDuplicate, layout.ErrLimit,
		layout.ErrChecksum, layout.ErrMisaligned, layout.ErrUnsupported, layout.ErrFormat,
		layout.ErrNotFound, layout.ErrClosed,
	}
	for i, sentinel := range sentinels {
		e := layout.Errorf(layout.APR2, 1<<40, "index_offset", sentinel, "%d is odd", 7)
		want := fmt.Sprintf("apr2: offset 1099511627776: index_offset: 7 is odd (%v)", sentinel)
		if e.Error() != want {
			t.Errorf("message %q, want %q", e, want)
		}
		wrapped := fmt.Errorf("model.apr: %w", e)
		for j, other := range sentinels {
			if errors.Is(wrapped, other) != (i == j) {
				t.Errorf("errors.Is(%v, %v) = %t", wrapped, other, i != j)
			}
		}
		if errors.Unwrap(e) != sentinel {
			t.Errorf("Unwrap is %v, want %v", errors.Unwrap(e), sentinel)
		}
		var fe *layout.FormatError
		if !errors.As(wrapped, &fe) || fe != e {
			t.Errorf("errors.As finds %v", fe)
		}
	}
}

func TestQuote(t *testing.T) {
	long := strings.Repeat("n", 81)
	tests := []struct{ name, want string }{
		{"", `""`},
		{"layers.0.weight", `"layers.0.weight"`},
		{"▁é", `"▁é"`},
		{`a"b\c`, `"a\"b\\c"`},
		{"a\nb\r\tc\x00", `"a\nb\r\tc\x00"`},
		{"\x1b[2J\x1b]0;owned\a", `"\x1b[2J\x1b]0;owned\a"`},
		{"\u202egpj.exe", `"\u202egpj.exe"`}, // right-to-left override
		{"\u200b\ufeff", `"\u200b\ufeff"`},
		{"\xff\xfe", `"\xff\xfe"`},
		{long[:80], `"` + long[:80] + `"`},
		{long, `"` + long[:80] + `"… (81 bytes)`},
		{strings.Repeat("x", 1<<20), `"` + strings.Repeat("x", 80) + `"… (1048576 bytes)`},
	}
	for _, tt := range tests {
		if got := layout.Quote(tt.name); got != tt.want {
			t.Errorf("Quote(%q) = %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzQuote: one printable line of bounded length, which still says the name.
func FuzzQuote(f *testing.F) {
	f.Add([]byte("a\xff\x00\u2028"))
	f.Add([]byte(strings.Repeat("€", 27)))
	f.Fuzz(func(t *testing.T, name []byte) {
		q := layout.Quote(name)
		if !utf8.ValidString(q) || strings.ContainsFunc(q, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Quote(%q) = %s is not printable", name, q)
		}
		if limit := 4*80 + 40; len(q) > limit {
			t.Errorf("Quote(%q) has %d bytes, more than %d", name, len(q), limit)
		}
		if back, err := strconv.Unquote(q); len(name) <= 80 && (err != nil || back != string(name)) {
			t.Errorf("Quote(%q) = %s, which unquotes to %q, %v", name, q, back, err)
		}
	})
}

func TestNamesOfValues(t *testing.T) {
	for want, v := range map[string]interface {
		fmt.Stringer
		MarshalText() ([]byte, error)
	}{
		"raw": layout.Raw, "lz4": layout.LZ4, "encrypted": layout.Encrypted,
		"protobuf": layout.Protobuf, "big-endian": layout.Swapped, "Encoding(6)": layout.EncryptedLZ4 + 1, "Encoding(255)": layout.Encoding(255),
	} {
		if v.String() != want {
			t.Errorf("String is %q, want %q", v, want)
		}
		if text, err := v.MarshalText(); string(text) != want || err != nil {
			t.Errorf("MarshalText is %q, %v, want %q", text, err, want)
		}
	}
}
