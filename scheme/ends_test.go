package scheme

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestMayEnd compares mayEnd with a search through all names: it may say yes too often, and never no too often.
func TestMayEnd(t *testing.T) {
	names := []string{"a.weight", "b.weight", "a.weight_scale", "c", "", ".", "d.", "x.quant_state.bitsandbytes__nf4", "e_scale", "a.weight.absmax"}
	f := &finder{}
	for _, name := range names {
		f.tensors = append(f.tensors, layout.Tensor{Name: []byte(name)})
	}
	f.collectEnds()
	no := 0
	for _, name := range append(names, "a.weight_scale_inv", "q.scales", "_blocks") {
		for at := range len(name) + 1 {
			end, ends := name[at:], false
			for _, n := range names {
				ends = ends || strings.HasSuffix(n, end)
			}
			may := f.mayEndWith(end)
			if ends && !may {
				t.Errorf("no name ends with %q", end)
			}
			if !may {
				no++
			}
		}
	}
	if no < 20 {
		t.Errorf("%d ends were told to be missing", no)
	}
}

// TestDescriptionOfManyDimensions: 256 dimensions are described otherwise than a content whose bytes look like them.
func TestDescriptionOfManyDimensions(t *testing.T) {
	const rank = 256
	shape := make([]int, rank)
	shape[0] = 8 * rank
	f := &finder{Table: Table{tensors: []layout.Tensor{{Name: []byte("a"), Shape: shape}, {Name: []byte("a")}}}, contents: map[uint32][]byte{1: make([]byte, 8*rank)}}
	var descriptions [2]string
	for i := range descriptions {
		f.describe([]Part{{Codes, uint32(i)}}, []byte("a"))
		descriptions[i] = string(f.description)
	}
	if descriptions[0] == descriptions[1] {
		t.Error("two shapes have one description")
	}
}

// TestCompanionEnds: what lies beside codes whose names no plain weight has is in companionEnds, so that floats called so are refused.
func TestCompanionEnds(t *testing.T) {
	for _, p := range patterns {
		if p.codesEnd == "" || p.codesEnd == weightEnd || p.swapsCodesAndScale || p.refusal != nil {
			continue
		}
		ends := slices.Clone(p.scaleEnds)
		for _, c := range p.companions {
			if slices.Contains([]Role{Scale, ZeroPoint, Bias, GlobalScale}, c.role) {
				ends = append(ends, c.end)
			}
		}
		row := slices.IndexFunc(companionEnds, func(r companionRow) bool { return r.codesEnd == p.codesEnd })
		for _, end := range ends {
			if row < 0 || !slices.Contains(companionEnds[row].companionEnds, end) {
				t.Errorf("%s: %q lacks %q", p.schemeName, p.codesEnd, end)
			}
		}
	}
}
