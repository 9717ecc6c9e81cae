package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

const jsonAt = 1000 // where the JSON of these tests lies in its file

func parseJSON(s string, lim layout.Limits) (layout.Metadata, error) {
	return layout.ParseJSON([]byte(s), layout.APR2, jsonAt, "metadata", lim)
}

// JSON that has one of everything.
const everything = `{"s": "a\u00e9\ud83d\ude00\n<&>", "n": 1e400, "b": true, "z": null,
	"o": {"y": 1, "x": {"": []}}, "l": [false, "", -0, [{}], 2], "e": {}}`

func TestParseJSON(t *testing.T) {
	got, err := parseJSON(" \r\n\t"+everything+" \r\n\t", defaults())
	if err != nil {
		t.Fatal(err)
	}
	n := func(s string) json.Number { return json.Number(s) }
	want := layout.Metadata{
		{Key: "s", Value: "aé😀\n<&>"},
		{Key: "n", Value: n("1e400")},
		{Key: "b", Value: true},
		{Key: "z", Value: nil},
		{Key: "o", Value: layout.Metadata{
			{Key: "y", Value: n("1")},
			{Key: "x", Value: layout.Metadata{{Key: "", Value: []any{}}}},
		}},
		{Key: "l", Value: []any{false, "", n("-0"), []any{layout.Metadata{}}, n("2")}},
		{Key: "e", Value: layout.Metadata{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestParseJSONKeepsDigits(t *testing.T) {
	for _, number := range []string{
		"0", "-0", "0.10", "1E+2", "1e-400", "18446744073709551616", "9007199254740993", "3.14159265358979323846264338327950288",
	} {
		md, err := parseJSON(`{"n":`+number+`}`, defaults())
		if err != nil {
			t.Error(err)
			continue
		}
		if v, _ := md.Get("n"); v != json.Number(number) {
			t.Errorf("%s became %v", number, v)
		}
	}
}

func TestParseJSONErrors(t *testing.T) {
	tests := []struct {
		json string
		want error
		word string
	}{
		{``, layout.ErrInvalid, "unexpected EOF"},
		{` `, layout.ErrInvalid, "unexpected EOF"},
		{`[{}]`, layout.ErrInvalid, "not an object"},
		{`"a"`, layout.ErrInvalid, "not an object"},
		{`null`, layout.ErrInvalid, "not an object"},
		{`1`, layout.ErrInvalid, "not an object"},
		{`}`, layout.ErrInvalid, "invalid character"},
		{`{,}`, layout.ErrInvalid, "invalid character"},
		{`{"a":1,}`, layout.ErrInvalid, "invalid character"},
		{`{"a" 1}`, layout.ErrInvalid, "invalid character"},
		{`{"a"}`, layout.ErrInvalid, "invalid character"},
		{`{"a":}`, layout.ErrInvalid, "invalid character"},
		{`{a:1}`, layout.ErrInvalid, "invalid character"},
		{`{1:1}`, layout.ErrInvalid, "invalid character"},
		{`{null:1}`, layout.ErrInvalid, "invalid character"},
		{`{"a":1 "b":2}`, layout.ErrInvalid, "invalid character"},
		{`{"a":[1 2]}`, layout.ErrInvalid, "invalid character"},
		{`{"a":[1,]}`, layout.ErrInvalid, "invalid character"},
		{`{"a":[,1]}`, layout.ErrInvalid, "invalid character"},
		{`{"a":[1}`, layout.ErrInvalid, "invalid character"},
		{`{"a":{]}`, layout.ErrInvalid, "invalid character"},
		{`{"a":01}`, layout.ErrInvalid, "invalid character"},
		{`{"a":+1}`, layout.ErrInvalid, "invalid character"},
		{`{"a":1.}`, layout.ErrInvalid, "invalid character"},
		{`{"a":NaN}`, layout.ErrInvalid, "invalid character"},
		{`{"a":'b'}`, layout.ErrInvalid, "invalid character"},
		{`{"a":"\x"}`, layout.ErrInvalid, "invalid character"},
		{"{\"a\":\"\n\"}", layout.ErrInvalid, "invalid character"},
		{`{/**/}`, layout.ErrInvalid, "invalid character"},
		{"{\"a\":\"\xff\"}", layout.ErrInvalid, "UTF-8"},
		{"{\"a\":\"\xed\xa0\x80\"}", layout.ErrInvalid, "UTF-8"},
		{"{}\xc0\x80", layout.ErrInvalid, "UTF-8"},
		{`{}{}`, layout.ErrInvalid, "bytes after"},
		{`{} x`, layout.ErrInvalid, "bytes after"},
		{`{},`, layout.ErrInvalid, "bytes after"},
		{`{}"`, layout.ErrInvalid, "bytes after"},
		{`{}}`, layout.ErrInvalid, "bytes after"},
		{"{}\x00", layout.ErrInvalid, "bytes after"},
		{`{"a":1,"a":1}`, layout.ErrDuplicate, `"a"`},
		{`{"a":1,"b":2,"\u0061":3}`, layout.ErrDuplicate, `"a"`},
		{`{"":1,"":1}`, layout.ErrDuplicate, `""`},
		{`{"a":[0,{"b":{"c":1,"d":2,"c":3}}]}`, layout.ErrDuplicate, `"c"`},
		{`{"a":{},"a":{}}`, layout.ErrDuplicate, `"a"`},
	}
	for _, tt := range tests {
		md, err := parseJSON(tt.json, defaults())
		var fe *layout.FormatError
		if md != nil || !errors.As(err, &fe) || !errors.Is(err, tt.want) || !strings.Contains(fe.Reason, tt.word) {
			t.Errorf("%s: %v, %v, want %v with %q", tt.json, md, err, tt.want, tt.word)
			continue
		}
		if end := jsonAt + uint64(len(tt.json)); fe.Format != layout.APR2 || fe.Field != "metadata" || fe.Offset < jsonAt || fe.Offset > end {
			t.Errorf("%s: error %v, want one of apr2, metadata, between %d and %d", tt.json, err, jsonAt, end)
		}
	}
}

// The same key in different objects is no duplicate.
func TestParseJSONSameKeys(t *testing.T) {
	if _, err := parseJSON(`{"a":{"a":1},"b":{"a":{"a":2}},"c":[{"a":3},{"a":4}]}`, defaults()); err != nil {
		t.Error(err)
	}
}

func TestParseJSONErrorOffsets(t *testing.T) {
	tests := []struct {
		json string
		want uint64 // of the token that is wrong, or of its end
	}{
		{`{"a":1,"a":2}`, 10},
		{`{"a":1} x`, 8},
		{"{\"\ufffd\":\"\xff\"}", 8}, // the replacement character itself is valid
		{`{"a" 1}`, 5},
		{`{"a":[1,2}`, 9},
		{strings.Repeat(" ", 5000) + `{"a":1,}`, 5007},
		{`{"a":"` + strings.Repeat("x", 5000) + `",}`, 5008},
	}
	for _, tt := range tests {
		_, err := parseJSON(tt.json, defaults())
		var fe *layout.FormatError
		if !errors.As(err, &fe) || fe.Offset != jsonAt+tt.want {
			t.Errorf("%.20s…: error %v, want offset %d", tt.json, err, jsonAt+tt.want)
		}
	}
}

func TestParseJSONTruncated(t *testing.T) {
	if _, err := parseJSON(everything, defaults()); err != nil {
		t.Fatal(err)
	}
	for n := range len(everything) {
		if md, err := parseJSON(everything[:n], defaults()); md != nil || !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("the first %d bytes parse: %v, %v", n, md, err)
		}
	}
}

func TestParseJSONDepth(t *testing.T) {
	nested := func(n int) []string { // objects and arrays n deep
		return []string{
			strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1),
			`{"a":` + strings.Repeat(`[`, n-1) + strings.Repeat(`]`, n-1) + `}`,
			`{"a":[],"b":` + strings.Repeat(`[`, n-1) + `1` + strings.Repeat(`]`, n-1) + `}`,
		}
	}
	for _, depth := range []int{2, 3, 64, 100} {
		lim := defaults()
		lim.Depth = uint64(depth)
		for _, s := range nested(depth) {
			if _, err := parseJSON(s, lim); err != nil {
				t.Errorf("depth %d: %v", depth, err)
			}
		}
		for _, s := range nested(depth + 1) {
			if _, err := parseJSON(s, lim); !errors.Is(err, layout.ErrLimit) {
				t.Errorf("depth %d under a limit of %d: %v", depth+1, depth, err)
			}
		}
	}
	if _, err := parseJSON(`{"a":`+strings.Repeat("[", 1<<20), defaults()); !errors.Is(err, layout.ErrLimit) {
		t.Errorf("a million brackets: %v", err)
	}
}

func TestParseJSONHeaderBytes(t *testing.T) {
	lim := defaults()
	lim.HeaderBytes = 7
	if _, err := parseJSON(`{"a":1}`, lim); err != nil {
		t.Error(err)
	}
	_, err := parseJSON(`{"a":1} `, lim)
	wantFormatError(t, err, layout.APR2, jsonAt, "metadata", layout.ErrLimit, "8 bytes", "7")
}

// shapeOfJSON counts what valid JSON has outside its strings: members of objects, and
// the depth of its brackets.
func shapeOfJSON(b []byte) (members, depth int) {
	inString, escaped, level := false, false, 0
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == ':':
			members++
		case c == '{' || c == '[':
			level++
			depth = max(depth, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return members, depth
}

// membersLeft counts the members of all objects in v, a map having lost its duplicates.
func membersLeft(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, inner := range v {
			n += membersLeft(inner)
		}
	case []any:
		for _, inner := range v {
			n += membersLeft(inner)
		}
	}
	return n
}

func decodeJSON(b []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// FuzzParseJSON compares with encoding/json: it accepts exactly the valid objects
// without duplicate keys and too deep nesting, and what it accepts it writes back.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		everything, ``, `{}`, `{"a":1,"a":2}`, `{"a":[1,{"b":[]}],"c":-1.5e+3}`, `{"a":[[[[1]]]]}`, `{"\ud800":"\ud800"}`,
		`{"a":1}}`, "{\"a\":\"\u2028\"}", `[1]`, `{"a":01}`, `{"a":tru`,
	} {
		f.Add([]byte(s))
	}
	lim := defaults()
	lim.Depth = 4
	f.Fuzz(func(t *testing.T, b []byte) {
		md, err := layout.ParseJSON(b, layout.APR2, jsonAt, "metadata", lim)
		var want map[string]any
		if utf8.Valid(b) && json.Valid(b) {
			v, _ := decodeJSON(b)
			members, depth := shapeOfJSON(b)
			if object, ok := v.(map[string]any); ok && membersLeft(v) == members && depth <= int(lim.Depth) {
				want = object
			}
		}
		if want == nil {
			var fe *layout.FormatError
			if !errors.As(err, &fe) || md != nil {
				t.Fatalf("%q: %v, %v, want a FormatError", b, md, err)
			}
			if fe.Offset < jsonAt || fe.Offset > jsonAt+uint64(len(b)) {
				t.Fatalf("%q: offset of %v is outside", b, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		out, err := md.MarshalJSON()
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if got, err := decodeJSON(out); err != nil || !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("%q was written as %q, %v", b, out, err)
		}
		if bytes.ContainsAny(b, "\\\u2028\u2029") {
			return // may be escaped otherwise
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil || !bytes.Equal(out, compact.Bytes()) {
			t.Fatalf("%q was written as %q, want the same order and digits", b, out)
		}
	})
}
