package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestEncodeJSON(t *testing.T) {
	value := "a\"\\<&>\n\x1b\x7f\u0085\u009b\u202e\u2069é🙂\u2028"
	text, err := EncodeJSON(value)
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

func TestNumbers(t *testing.T) {
	for _, test := range [][2]string{
		{Size(0), "0 B"}, {Size(1023), "1023 B"}, {Size(1024), "1.00 KiB"}, {Size(90868376), "86.7 MiB"}, {Size(math.MaxUint64), "16.0 EiB"},
		{Grouped(0), "0"}, {Grouped(999), "999"}, {Grouped(1000), "1,000"}, {Grouped(22713216), "22,713,216"},
		{Grouped(uint64(math.MaxUint64)), "18,446,744,073,709,551,615"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(1000), "1.00K"}, {Count(22713216), "22.7M"}, {Count(999499), "999K"},
		{Count(999500), "1.00M"}, {Count(7e9), "7.00B"}, {Count(123e12), "123T"}, {Count(math.MaxUint64), "18446744T"},
		{Duration(0), "0 µs"}, {Duration(12340 * time.Microsecond), "12.3 ms"}, {Duration(1234 * time.Millisecond), "1.23 s"},
		{Duration(119 * time.Second), "119 s"}, {Duration(150*time.Second + 3), "2m30s"},
		{Throughput(1<<30, 500*time.Millisecond), "1.00 GiB in 500 ms, 2.00 GiB/s"}, {Throughput(0, 0), "0 B in 0 µs, 0 B/s"},
	} {
		if test[0] != test[1] {
			t.Errorf("%s, want %s", test[0], test[1])
		}
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
		text, err := EncodeJSON(value)
		if err != nil || strings.ContainsRune(string(text), r) || strings.ContainsRune(Printable(value), r) {
			t.Errorf("%U: %q, %q (%v)", r, text, Printable(value), err)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil || back != value {
			t.Errorf("%U: %s comes back as %q (%v)", r, text, back, err)
		}
	}
}

// TestEncodeMetadata has values that encoding/json refuses, or writes as something else.
func TestEncodeMetadata(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  string
	}{
		{math.NaN(), `"NaN"`},
		{[]float32{float32(math.Inf(-1)), 1}, `["-Infinity",1]`},
		{[]uint8{1, 2}, `[1,2]`},
		{"a<b\x7f", `"a<b\u007f"`},
	} {
		if text, err := EncodeJSON(tc.value); err != nil || string(text) != tc.want {
			t.Errorf("%v: %s, %v", tc.value, text, err)
		}
	}
}

// encodes counts how often it is encoded.
type encodes int

func (e *encodes) MarshalJSON() ([]byte, error) {
	*e++
	return []byte("1"), nil
}

// TestJSONError keeps the first error. It encodes and writes nothing after it.
func TestJSONError(t *testing.T) {
	var out strings.Builder
	j := JSON{W: &out}
	j.Field("a", func() {})
	var times encodes
	j.Field("b", &times)
	j.List("c")
	j.Row(&times)
	if j.Err == nil || out.String() != "{\n  \"a\": " || times > 0 {
		t.Errorf("%q, %v, encoded %d times", out.String(), j.Err, times)
	}
}
