package jsontext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

func scan(text string) jsontext.Scanner {
	return jsontext.New([]byte(text), layout.TSM, 100, "text", defaults())
}

func TestUint(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "7 ": "7", "18446744073709551615": "18446744073709551615", "9999999999999999999,": "9999999999999999999",
		"10000000000000000000": "10000000000000000000",
		"18446744073709551616": "20 digits", "19999999999999999999": "20 digits", "20000000000000000000": "20 digits",
		"99999999999999999999": "20 digits", "100000000000000000000": "21 digits", "00": "leading zeros", "01": "leading zeros",
		"1.0": "fraction", "1e3": "exponent", "1E3": "exponent", "-1": "'-' where", "": "the end of the JSON where", "\xff": "0xff where",
	} {
		s := scan(text)
		got := fmt.Sprint(s.Uint())
		if err := s.Err(); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestFirstError keeps the first error, and reads nothing after it.
func TestFirstError(t *testing.T) {
	s := scan(`[1, x, "a", {"b": 2}]`)
	var got []uint64
	for s.Open('[', "an array"); s.More(']'); {
		got = append(got, s.Uint())
	}
	first := s.Err()
	var e *layout.FormatError
	if !errors.As(first, &e) || e.Offset != 104 || e.Field != "text" || len(got) != 2 {
		t.Errorf("%v, %v", got, first)
	}
	s.Skip()
	s.Open('{', "an object")
	for range s.Members("an object") {
		t.Error("a member")
	}
	key, _ := s.Key()
	if n, text := s.Number(), s.Text(); len(n)+len(text)+len(key)+len(s.Shape(nil, 1)) > 0 || s.Uint() > 0 || s.More('}') || s.Next() != 0 || len(s.Rest()) > 0 {
		t.Errorf("read on: %q, %q, %q", n, text, key)
	}
	s.End()
	if s.Err() != first {
		t.Errorf("%v after %v", s.Err(), first)
	}
}

func TestRecord(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":2}`:                "",
		` { "x" : [{}] , "b":2,"a":1}`: "",
		`{"b":2}`:                      "tsm: offset 7: a: no a (invalid)",
		`{"a":1,"b":x}`:                "tsm: offset 111: b: 'x' where a non-negative integer should be (invalid)",
		`{"a":1,"x":x}`:                "tsm: offset 111: text: 'x' where a value should be (invalid)",
		`{"a":1,"\u0061":2}`:           `tsm: offset 107: text: key "a" occurs twice (duplicate)`,
		`[]`:                           "tsm: offset 100: text: '[' where a pair should be (invalid)",
	} {
		s := scan(text)
		var sum [2]uint64
		s.Record(7, "a pair", []string{"a", "b"}, func(i int) { sum[i] = s.Uint() })
		s.End()
		if got := fmt.Sprint(s.Err()); want != "" && got != want || want == "" && (s.Err() != nil || sum != [2]uint64{1, 2}) {
			t.Errorf("%s: %v, %s; want %s", text, sum, got, want)
		}
	}
}

// TestNames: keys are found, be they few or many. Objects within take no part.
func TestLocate(t *testing.T) {
	const text = ` {"a": 1, "b" :[ 10, {"\u0063": "x", "d": [[], 5]} ] } `
	for _, tt := range []struct {
		path []any
		at   string // the text from there on begins so
	}{
		{nil, `{"a"`},
		{[]any{"a"}, `1,`},
		{[]any{"b"}, `[ 10`},
		{[]any{"b", 0}, `10`},
		{[]any{"b", 1, "c"}, `"x"`},
		{[]any{"b", 1, "d", 1}, `5]`},
		{[]any{"b", 1, "d", 2}, `[[]`},
		{[]any{"b", 1, "e", 2}, `{"\u0063"`},
		{[]any{"a", 1}, `1,`},
		{[]any{0}, `{"a"`},
	} {
		if at := jsontext.Locate(text, tt.path...); !strings.HasPrefix(text[at:], tt.at) {
			t.Errorf("%v: %q, want %q", tt.path, text[at:], tt.at)
		}
	}
	if at := jsontext.Locate(strings.Repeat("[", 1<<20), 0, 0); at != 2 {
		t.Errorf("a million brackets: %d", at)
	}
	deep := `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `,"b":` // Limits.Depth may allow it
	if at := jsontext.Locate(deep+`1}`, "b"); at != uint64(len(deep)) {
		t.Errorf("behind %d brackets: %d, want %d", 2000, at, len(deep))
	}
}

// TestScanAllocates reads an object of known fields without taking memory.
func TestScanAllocates(t *testing.T) {
	text := `{"name": "model.layers.0.weight", "list": [1, 2.5, {"x": null}]}`
	if n := testing.AllocsPerRun(100, func() {
		s := jsontext.New(text, layout.TSM, 0, "text", defaults())
		for s.Open('{', "an object"); s.More('}'); {
			s.Key()
			if s.Next() == '"' {
				s.Text()
				continue
			}
			for s.Open('[', "an array"); s.More(']'); {
				if s.Next() == '{' {
					for s.Open('{', "an object"); s.More('}'); s.Skip() {
						s.Key()
					}
					continue
				}
				s.Number()
			}
		}
		if s.End(); s.Err() != nil {
			t.Fatal(s.Err())
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
