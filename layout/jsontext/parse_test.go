package jsontext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
	"github.com/tensormap/tensormap/layout/jsontext"
)

const jsonAt = 1000 // where the JSON of these tests lies in its file

func parseJSON(s string, lim layout.Limits) (layout.Metadata, error) {
	return jsontext.Parse([]byte(s), layout.APR2, jsonAt, "metadata", lim)
}

func defaults() layout.Limits { return (*layout.Limits)(nil).WithDefaults() }

// JSON that has one of everything.
const everything = `{"s": "a\u00e9\ud83d\ude00\n<&>", "n": 1e400, "b": true, "z": null,
	"o": {"y": 1, "x": {"": []}}, "l": [false, "", -0, [{}], 2], "e": {}}`

// plain makes a slice of every list in v: of strings or numbers if all elements are such.
func plain(v any) any {
	switch v := v.(type) {
	case layout.Metadata:
		v = slices.Clone(v)
		for i := range v {
			v[i].Value = plain(v[i].Value)
		}
		return v
	case []any:
		all := slices.Clone(v)
		for i := range all {
			all[i] = plain(all[i])
		}
		if texts, ok := layout.As[[]string](v); ok && len(texts) > 0 {
			return texts
		}
		if numbers, ok := layout.As[[]json.Number](v); ok && len(numbers) > 0 {
			return numbers
		}
		return all
	}
	return v
}

func TestParse(t *testing.T) {
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
	if got := plain(got); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestParseKeepsDigits(t *testing.T) {
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

func TestParseErrors(t *testing.T) {
	tests := []struct {
		json   string
		want   error
		offset uint64
		reason string // its beginning, or more than a word of it
	}{
		{``, layout.ErrInvalid, 0, "the end of the JSON where an object"},
		{` `, layout.ErrInvalid, 1, "the end of the JSON where an object"},
		{`[{}]`, layout.ErrInvalid, 0, "'[' where an object"},
		{` "a"`, layout.ErrInvalid, 1, "'\"' where an object"},
		{`null`, layout.ErrInvalid, 0, "'n' where an object"},
		{`1`, layout.ErrInvalid, 0, "'1' where an object"},
		{`}`, layout.ErrInvalid, 0, "'}' where an object"},
		{`{,}`, layout.ErrInvalid, 1, "',' where a key"},
		{`{"a":1,}`, layout.ErrInvalid, 7, "'}' where a key"},
		{`{"a" 1}`, layout.ErrInvalid, 5, "'1' where ':'"},
		{`{"a"}`, layout.ErrInvalid, 4, "'}' where ':'"},
		{`{"a":}`, layout.ErrInvalid, 5, "'}' where a value"},
		{`{a:1}`, layout.ErrInvalid, 1, "'a' where a key"},
		{`{1:1}`, layout.ErrInvalid, 1, "'1' where a key"},
		{`{null:1}`, layout.ErrInvalid, 1, "'n' where a key"},
		{`{"a":1 "b":2}`, layout.ErrInvalid, 7, "'\"' where ',' or '}'"},
		{`{"a":[1 2]}`, layout.ErrInvalid, 8, "'2' where ',' or ']'"},
		{`{"a":[1,]}`, layout.ErrInvalid, 8, "']' where a value"},
		{`{"a":[,1]}`, layout.ErrInvalid, 6, "',' where a value"},
		{`{"a":[1}`, layout.ErrInvalid, 7, "'}' where ',' or ']'"},
		{`{"a":{]}`, layout.ErrInvalid, 6, "']' where a key"},
		{`{"a":01}`, layout.ErrInvalid, 6, "'1' where ',' or '}'"},
		{`{"a":-01}`, layout.ErrInvalid, 7, "'1' where ',' or '}'"},
		{`{"a":+1}`, layout.ErrInvalid, 5, "'+' where a value"},
		{`{"a":.5}`, layout.ErrInvalid, 5, "'.' where a value"},
		{`{"a":1.}`, layout.ErrInvalid, 7, "'}' where a digit"},
		{`{"a":1.e1}`, layout.ErrInvalid, 7, "'e' where a digit"},
		{`{"a":-}`, layout.ErrInvalid, 6, "'}' where a digit"},
		{`{"a":-x}`, layout.ErrInvalid, 6, "'x' where a digit"},
		{`{"a":1e}`, layout.ErrInvalid, 7, "'}' where a digit"},
		{`{"a":1E+-1}`, layout.ErrInvalid, 8, "'-' where a digit"},
		{`{"a":1e+`, layout.ErrInvalid, 8, "the end of the JSON where a digit"},
		{`{"a":0x1}`, layout.ErrInvalid, 6, "'x' where ',' or '}'"},
		{`{"a":NaN}`, layout.ErrInvalid, 5, "'N' where a value"},
		{`{"a":True}`, layout.ErrInvalid, 5, "'T' where a value"},
		{`{"a":tru}`, layout.ErrInvalid, 5, "'t' where a value"},
		{`{"a":nullx}`, layout.ErrInvalid, 9, "'x' where ',' or '}'"},
		{`{"a":'b'}`, layout.ErrInvalid, 5, "'\\'' where a value"},
		{`{/**/}`, layout.ErrInvalid, 1, "'/' where a key"},
		{"{\f}", layout.ErrInvalid, 1, "'\\f' where a key"},
		{"{\u00a0}", layout.ErrInvalid, 1, "'\\u00a0' where a key"},
		{`{"a":"b`, layout.ErrInvalid, 5, "string that does not end"},
		{`{"a":"b\`, layout.ErrInvalid, 7, "invalid escape"},
		{`{"a":"\x"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"12345678\u12g4"}`, layout.ErrInvalid, 14, "invalid escape"},
		{`{"a":"\U1234"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"\ud83d"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"\ude00"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"\ude00\ud83d"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"\ud83dxude00"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"a":"\ud83d\ud83d\ude00"}`, layout.ErrInvalid, 6, "invalid escape"},
		{`{"\ud800":1}`, layout.ErrInvalid, 2, "invalid escape"},
		{"{\"a\":\"\n\"}", layout.ErrInvalid, 6, "control character 0x0a"},
		{"{\"a\":\"0123456789\x1f\"}", layout.ErrInvalid, 16, "control character 0x1f"},
		{"{\"a\x00\":1}", layout.ErrInvalid, 3, "control character 0x00"},
		{"{\"a\":\"\xff\"}", layout.ErrInvalid, 6, "UTF-8: 0xff"},
		{"{\"a\":\"\xed\xa0\x80\"}", layout.ErrInvalid, 6, "UTF-8"},
		{"{\"\ufffd\":\"\xff\"}", layout.ErrInvalid, 8, "UTF-8"},
		{"{}\xc0\x80", layout.ErrInvalid, 2, "bytes after"},
		{`{}{}`, layout.ErrInvalid, 2, "bytes after"},
		{`{} x`, layout.ErrInvalid, 3, "bytes after"},
		{`{},`, layout.ErrInvalid, 2, "bytes after"},
		{`{}"`, layout.ErrInvalid, 2, "bytes after"},
		{`{}}`, layout.ErrInvalid, 2, "bytes after"},
		{"{}\x00", layout.ErrInvalid, 2, "bytes after"},
		{"{\xc0\x80}", layout.ErrInvalid, 1, "UTF-8: 0xc0 where a key"},
		{strings.Repeat(" ", 5000) + `{"a":1,}`, layout.ErrInvalid, 5007, "'}' where a key"},
		{`{"a":"` + strings.Repeat("x", 5000) + `",}`, layout.ErrInvalid, 5008, "'}' where a key"},
		{`{"a":1,"a":2}`, layout.ErrDuplicate, 7, "key \"a\""},
		{`{"a":1,"b":2,"\u0061":3}`, layout.ErrDuplicate, 13, "key \"a\""},
		{`{"":1,"":1}`, layout.ErrDuplicate, 6, "key \"\""},
		{`{"a":[0,{"b":{"c":1,"d":2,"c":3}}]}`, layout.ErrDuplicate, 26, "key \"c\""},
		{`{"a":{},"a":{}}`, layout.ErrDuplicate, 8, "key \"a\""},
		{`{` + members(40) + `,"k7":0}`, layout.ErrDuplicate, uint64(len(members(40))) + 2, "key \"k7\""},
	}
	for _, tt := range tests {
		md, err := parseJSON(tt.json, defaults())
		if md != nil {
			t.Errorf("%s: %v", tt.json, md)
		}
		layouttest.WantError(t, err, layout.APR2, jsonAt+tt.offset, "metadata", tt.want, tt.reason)
	}
}

// members are n members of an object.
func members(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	return strings.Join(list, ",")
}

// TestParseArrays: the elements of an array can be asked for as a slice of their type.
func TestParseArrays(t *testing.T) {
	n := json.Number("1")
	for text, want := range map[string]any{
		`[]`:                    []any{},
		` [ ] `:                 []any{},
		`[1]`:                   []json.Number{"1"},
		`[1,-2.5e-3 , 0]`:       []json.Number{"1", "-2.5e-3", "0"},
		`["a"]`:                 []string{"a"},
		`["a","\n\u00e9" , ""]`: []string{"a", "\né", ""},
		`[1,"a"]`:               []any{n, "a"},
		`["a",1]`:               []any{"a", n},
		`[1,null]`:              []any{n, nil},
		`[true,false]`:          []any{true, false},
		`["a",["a"]]`:           []any{"a", []string{"a"}},
		`[[],[1],["a"],{}]`:     []any{[]any{}, []json.Number{"1"}, []string{"a"}, layout.Metadata{}},
		`["[","{",1]`:           []any{"[", "{", n},
	} {
		md, err := parseJSON(`{"before":[1,[]],"v":`+text+`,"after":[""]}`, defaults())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, _ := md.Get("v")
		if !reflect.DeepEqual(plain(got), want) {
			t.Errorf("%s: %#v, want %#v", text, got, want)
		}
		if after, _ := md.Get("after"); !reflect.DeepEqual(plain(after), []string{""}) {
			t.Errorf("%s: after it %#v", text, after)
		}
	}
}

// TestParseMaxValues: more values than MaxValues are an error, wherever they are.
func TestParseMaxValues(t *testing.T) {
	testmode.Sequential(t)
	elements := strings.Repeat("0,", jsontext.MaxValues-3)
	for text, ok := range map[string]bool{
		`{"a":[` + elements + `0],"b":0}`:    true,
		`{"a":[` + elements + `0,0],"b":0}`:  false,
		`{"a":[` + elements + `0],"b":[{}]}`: false,
	} {
		_, err := parseJSON(text, defaults())
		if (err == nil) != ok || err != nil && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%s…: %v", text[len(text)-20:], err)
		}
	}
}

// TestParseManyKeys: an object of any number of keys has all of them, in order.
func TestParseManyKeys(t *testing.T) {
	for _, n := range []int{1, 15, 16, 17, 18, 1000} {
		md, err := parseJSON("{"+members(n)+"}", defaults())
		if err != nil || len(md) != n {
			t.Fatalf("%d keys: %d, %v", n, len(md), err)
		}
		for i, e := range md {
			if want := (layout.Entry{Key: fmt.Sprint("k", i), Value: json.Number(fmt.Sprint(i))}); e != want {
				t.Errorf("%v, want %v", e, want)
			}
		}
	}
}

// The same key in different objects is no duplicate.
func TestParseSameKeys(t *testing.T) {
	if _, err := parseJSON(`{"a":{"a":1},"b":{"a":{"a":2}},"c":[{"a":3},{"a":4}]}`, defaults()); err != nil {
		t.Error(err)
	}
}

// TestParseHostileMemory bounds the memory of texts that are nearly all keys: as many as there can be, all the same; and one with an escape
// inside many objects, each of which is passed once more to count its members.
func TestParseHostileMemory(t *testing.T) {
	const n, depth = 1 << 20, 60
	for name, text := range map[string]string{
		"the same keys": "{" + strings.Repeat(`"":0,`, n) + `"":0}`,
		"a long key":    strings.Repeat(`{"":`, depth) + `{"\n` + strings.Repeat("x", n) + `":0}` + strings.Repeat("}", depth),
	} {
		layouttest.Bound{PerByte: 16, Fixed: 1 << 16}.Check(t, name, len(text), func() {
			jsontext.Parse(text, layout.APR2, jsonAt, "metadata", defaults())
		})
	}
}

func TestParseLastWins(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":2}`:                      `{"a":1,"b":2}`,
		`{"a":1,"b":2,"\u0061":null,"a":[]}`: `{"a":[],"b":2}`,
		`{"o":{"x":{"y":1},"x":2},"o":{}}`:   `{"o":{}}`,
		`{"o":[{"x":1,"x":{"x":1,"x":2}}]}`:  `{"o":[{"x":{"x":2}}]}`,
		`{` + members(40) + `,"k7":0,"k39":0,"k7":"z"}`: strings.NewReplacer(`"k7":7`, `"k7":"z"`, `"k39":39`, `"k39":0`).
			Replace(`{` + members(40) + `}`),
	} {
		md, err := jsontext.ParseLastWins([]byte(text), layout.APR2, 0, "metadata", defaults())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := md.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := jsontext.ParseLastWins([]byte(`{"a":1,"a":}`), layout.APR2, 0, "metadata", defaults()); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("a broken document: %v", err)
	}
}

// TestParsePython reads what Python 3.11 writes: json.dumps({"time_step_limit": [0.0, inf], "a": nan, …}).
func TestParsePython(t *testing.T) {
	const text = `{"time_step_limit": [0.0, Infinity], "a": NaN, "o": {"b": -Infinity, "l": [[NaN, 1], {"a": Infinity, "s": "Infinity, [NaN]"}]}, "e": [1, 2]}`
	md, err := jsontext.ParsePython(text, layout.Unknown, 0, "config.json", defaults())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"time_step_limit":[0.0,"Infinity"],"a":"NaN","o":{"b":"-Infinity","l":[["NaN",1],{"a":"Infinity","s":"Infinity, [NaN]"}]},"e":[1,2]}`
	if got, err := md.MarshalJSON(); err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if a, _ := md.Get("a"); a != "NaN" {
		t.Errorf("%#v", a)
	}
	v, _ := md.Get("time_step_limit")
	if list, ok := layout.As[[]any](v); !ok || !slices.Equal(list, []any{json.Number("0.0"), "Infinity"}) {
		t.Errorf("%#v", v)
	}
	for _, text := range []string{`{"a":nan}`, `{"a":+Infinity}`, `{"a":Infinit}`, `{"a":NaNa}`, `{"a":--Infinity}`, `{"a":-NaN}`, `{NaN:1}`, `{"a":1,"a":NaN}`, `NaN`} {
		if md, err := jsontext.ParsePython(text, layout.Unknown, 0, "config.json", defaults()); err == nil {
			t.Errorf("%s: %v", text, md)
		}
	}
	for _, text := range []string{`{"a":NaN}`, `{"a":[Infinity]}`, `{"a":-Infinity}`} { // in headers of formats
		if md, err := parseJSON(text, defaults()); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%s: %v, %v", text, md, err)
		}
	}
}

func TestParseValue(t *testing.T) {
	for text, want := range map[string]any{
		` 1.50 `: json.Number("1.50"), `"a\u00e9"`: "aé", `null`: nil, `true`: true, `[]`: []any{}, ` [ 1 ]`: []json.Number{"1"},
		`{"a": {}}`: layout.Metadata{{Key: "a", Value: layout.Metadata{}}},
	} {
		if v, err := jsontext.ParseValue(text, layout.APR2, 0, "metadata", defaults()); err != nil || !reflect.DeepEqual(plain(v), want) {
			t.Errorf("%s: %#v, %v", text, v, err)
		}
	}
	for _, text := range []string{``, ` `, `1 1`, `1,"a":2`, `{"a":1,"a":2}`, `"`, `[`, `nul`} {
		if v, err := jsontext.ParseValue(text, layout.APR2, 0, "metadata", defaults()); v != nil || err == nil {
			t.Errorf("%s: %#v", text, v)
		}
	}
}

func TestParseTruncated(t *testing.T) {
	if _, err := parseJSON(everything, defaults()); err != nil {
		t.Fatal(err)
	}
	for n := range len(everything) {
		if md, err := parseJSON(everything[:n], defaults()); md != nil || !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("the first %d bytes parse: %v, %v", n, md, err)
		}
	}
}

func TestParseDepth(t *testing.T) {
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

func TestParseHeaderBytes(t *testing.T) {
	lim := defaults()
	lim.HeaderBytes = 7
	if _, err := parseJSON(`{"a":1}`, lim); err != nil {
		t.Error(err)
	}
	_, err := parseJSON(`{"a":1} `, lim)
	layouttest.WantError(t, err, layout.APR2, jsonAt, "metadata", layout.ErrLimit, "8 bytes", "7")
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

// escapes are those of valid JSON, pairs of surrogates being one.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.)`)

// halfSurrogate is whether valid JSON has an escape that is half of a pair, which
// encoding/json takes for U+FFFD.
func halfSurrogate(b []byte) bool {
	return slices.ContainsFunc(escapes.FindAll(b, -1), func(e []byte) bool {
		return len(e) == 6 && strings.ContainsRune("dD", rune(e[2])) && strings.ContainsRune("89abcdefABCDEF", rune(e[3]))
	})
}

// asDecoded is v with the types that encoding/json decodes to.
func asDecoded(v any) any {
	switch v := v.(type) {
	case layout.Metadata:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.Key] = asDecoded(e.Value)
		}
		return m
	case []any:
		all := make([]any, 0, len(v))
		for _, e := range v {
			all = append(all, asDecoded(e))
		}
		return all
	}
	return v
}

// FuzzParse compares with encoding/json: it accepts exactly the valid objects
// without duplicate keys, half surrogates and too deep nesting, with the same values, and
// what it accepts it writes back.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		everything, ``, `{}`, `{"a":1,"a":2}`, `{"a":[1,{"b":[]}],"c":-1.5e+3}`, `{"a":[[[[1]]]]}`, `{"\ud800":"\ud800"}`, `{"\ud83d\ude00":["\\ud800","\ufffd"]}`,
		`{"a":1}}`, "{\"a\":\"\u2028\"}", `[1]`, `{"a":01}`, `{"a":tru`, `{"a":[NaN,{"b":-Infinity}],"c":Infinity}`,
	} {
		f.Add([]byte(s))
	}
	lim := defaults()
	lim.Depth = 4
	f.Fuzz(func(t *testing.T, b []byte) {
		md, err := jsontext.Parse(b, layout.APR2, jsonAt, "metadata", lim)
		var want map[string]any
		if utf8.Valid(b) && json.Valid(b) && !halfSurrogate(b) {
			v, _ := decodeJSON(b)
			members, depth := shapeOfJSON(b)
			if object, ok := v.(map[string]any); ok && membersLeft(v) == members && depth <= int(lim.Depth) {
				want = object
			}
		}
		if loose, looseErr := jsontext.ParsePython(b, layout.APR2, jsonAt, "metadata", lim); looseErr == nil {
			if text, err := loose.MarshalJSON(); err != nil || !json.Valid(text) {
				t.Fatalf("%q was written as %q, %v", b, text, err)
			}
		} else if err == nil {
			t.Fatalf("%q: %v", b, looseErr)
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
		if got := asDecoded(md); !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("%q became %#v, want %#v", b, got, want)
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
