package apr2_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// TestScalesDense: scales that are many for the size of their names are an error before there is a map of them.
func TestScalesDense(t *testing.T) {
	for _, tc := range []struct {
		n, width int
		ok       bool
	}{{1 << 16, 8, true}, {1 << 17, 8, false}, {1 << 17, 48, true}} {
		list := make(layout.Metadata, tc.n)
		for i := range list {
			list[i] = layout.Entry{Key: fmt.Sprintf("%s%08x", strings.Repeat("w", tc.width-8), i), Value: json.Number("0.5")}
		}
		quants, err := new(apr2.File).Scales(layout.Metadata{{Key: "quantization", Value: layout.Metadata{{Key: "scales", Value: list}}}})
		if tc.ok && (err != nil || len(quants) != tc.n) || !tc.ok && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%d scales, names of %d bytes: %d, %v", tc.n, tc.width, len(quants), err)
		}
	}
}
