package slice

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

func TestNpyHeader(t *testing.T) {
	pad := func(dict string, total int) string {
		return dict + strings.Repeat(" ", total-10-len(dict)-1) + "\n"
	}
	for _, test := range []struct {
		descr string
		shape []int
		want  string
	}{
		{"<f4", nil, "\x93NUMPY\x01\x00\x76\x00" + pad("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 128)},
		{"|b1", []int{3}, "\x93NUMPY\x01\x00\x76\x00" + pad("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 128)},
		{"<c16", []int{0, 4}, "\x93NUMPY\x01\x00\x76\x00" + pad("{'descr': '<c16', 'fortran_order': False, 'shape': (0, 4), }", 128)},
	} {
		if got := string(NumPyHeader(test.descr, test.shape)); got != test.want {
			t.Errorf("%s %v:\n%q, want\n%q", test.descr, test.shape, got, test.want)
		}
	}
	// Around a multiple of 64, and the most dimensions there can be.
	for n := range 65 {
		shape := slices.Repeat([]int{math.MaxInt}, n)
		h := string(NumPyHeader("<f4", shape))
		dict := strings.TrimRight(h[10:len(h)-1], " ")
		if len(h)%64 != 0 || int(h[8])|int(h[9])<<8 != len(h)-10 || h[len(h)-1] != '\n' || len(h)-10-len(dict)-1 >= 64 {
			t.Errorf("%d dimensions: %d bytes, %d of dictionary", n, len(h), len(dict))
		}
	}
}

// Types keep their width, so that the elements can follow as they are stored.
func TestNpyTypes(t *testing.T) {
	for dtype, descr := range NpyTypes {
		if want := string("0123456789"[dtype.BlockBytes()%10]); !strings.HasSuffix(descr, want) || dtype.BlockElems() != 1 {
			t.Errorf("%s is %s, of %d bytes", dtype, descr, dtype.BlockBytes())
		}
	}
	if len(NpyTypes) != 14 || NpyTypes[layout.BF16] != "" {
		t.Errorf("%d types", len(NpyTypes))
	}
}
