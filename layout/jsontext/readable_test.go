package jsontext_test

import (
	"encoding/json"
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
