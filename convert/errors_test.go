package convert_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// TestErrors: what Write says of errors is what comparing the new file with the old one finds, to the last bits of sums.
func TestErrors(t *testing.T) {
	values := make([]float32, 3*65536+2*1024)
	for i := range values {
		values[i] = float32(math.Sin(float64(i) * float64(i)))
	}
	content := modeltest.SafeTensors(
		modeltest.Tensor{Name: "w", DType: layout.F32, Shape: []int{len(values) / 1024, 1024}, Data: modeltest.Float32s(values...)},
		modeltest.Tensor{Name: "b", DType: layout.F32, Shape: []int{4}, Data: modeltest.Float32s(1, 2, 3, 4)})
	in := modeltest.Write(t, "in.safetensors", content)
	m := open(t, in, nil)
	for _, d := range []layout.DType{layout.Q4_K, layout.Q8_0, layout.BF16, layout.I8, layout.F32} {
		out := filepath.Join(t.TempDir(), "out.apr")
		p, err := convert.Write(t.Context(), m, out, &convert.Options{DType: d})
		if err != nil {
			t.Fatal(err)
		}
		var all []survey.Pair
		err = survey.Compare(t.Context(), m, open(t, out, &loader.Options{}), nil, func(p *survey.Pair) error {
			all = append(all, *p)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Tensors {
			got, want := p.Tensors[i].Errors, all[i]
			isWanted := p.Tensors[i].Reencoded && d != layout.F32
			if isWanted != (got != nil) || p.Tensors[i].Name != want.Name {
				t.Errorf("%v: %s: %v", d, want.Name, got)
			}
			if isWanted && (got.Values != want.Values || math.Abs(got.DD-want.DD) > 1e-12*want.DD || math.Abs(got.AA-want.AA) > 1e-12*want.AA) {
				t.Errorf("%v: %s: %+v, want %+v", d, want.Name, *got, want.Errors)
			}
		}
	}
}
