package jsontext_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// TestReadable: what is found readable is read by Parse, and what Parse refuses is not.
func TestReadable(t *testing.T) {
	nested := func(n int, object bool) (v any) {
		for range n {
			if object {
				v = layout.Metadata{{Key: "k", Value: v}}
			} else {
				v = []any{v}
			}
		}
		return v
	}
	twice := layout.Metadata{{Key: "a"}, {Key: "b", Value: 1.5}, {Key: "a"}}
	lim := (*layout.Limits)(nil).WithDefaults()
	for name, tc := range map[string]struct {
		md   layout.Metadata
		want bool
	}{
		"nothing":      {nil, true},
		"plain":        {layout.Metadata{{Key: "a", Value: "\xff"}, {Key: "b", Value: []string{"x"}}, {Key: "c", Value: json.Number("1")}, {Key: "d", Value: nested(20, true)}}, true},
		"twice":        {twice, false},
		"twice within": {layout.Metadata{{Key: "x", Value: []any{twice}}}, false},
		"twice made":   {layout.Metadata{{Key: "x", Value: layout.Object(twice.All())}}, false},
		"same mended":  {layout.Metadata{{Key: "\xff"}, {Key: "\xfe"}}, false},
		"deep":         {layout.Metadata{{Key: "x", Value: nested(63, true)}}, true},
		"deeper":       {layout.Metadata{{Key: "x", Value: nested(64, true)}}, false},
		"lists":        {layout.Metadata{{Key: "x", Value: nested(63, false)}}, true},
		"more lists":   {layout.Metadata{{Key: "x", Value: nested(64, false)}}, false},
	} {
		text, err := tc.md.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		_, err = jsontext.Parse(text, layout.APR2, 0, "metadata", lim)
		if got := jsontext.Readable(tc.md); got != tc.want || got != (err == nil) {
			t.Errorf("%s: %t, want %t; Parse: %v", name, got, tc.want, err)
		}
	}
}

// TestReadableManyKeys: keys are gone through a few times, however many there are.
func TestReadableManyKeys(t *testing.T) {
	keys := make([]string, 10<<16)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	times := 0
	all := layout.Object(func(yield func(string, any) bool) {
		times++
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	})
	md := layout.Metadata{{Key: "x", Value: all}, {Key: "y", Value: strings.Repeat("x", 32*len(keys))}}
	if ok := jsontext.Readable(md); !ok || times > 10 {
		t.Errorf("%v, after %d times", ok, times)
	}
}
