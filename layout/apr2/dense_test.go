package apr2_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// TestManyScales: more scales than 262,144 are an error before there is a map of them.
func TestManyScales(t *testing.T) {
	for n, ok := range map[int]bool{1 << 18: true, 1<<18 + 1: false} {
		list := make(layout.Metadata, n)
		for i := range list {
			list[i] = layout.Entry{Key: strconv.Itoa(i), Value: json.Number("0.5")}
		}
		quants, err := new(apr2.File).Scales(layout.Metadata{{Key: "quantization", Value: layout.Metadata{{Key: "scales", Value: list}}}})
		if ok && (err != nil || len(quants) != n) || !ok && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%d scales: %d, %v", n, len(quants), err)
		}
	}
}
