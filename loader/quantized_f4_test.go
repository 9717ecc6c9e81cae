package loader_test

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// entry is a tensor of a SafeTensors header.
type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// TestF4LikeItsTwins: codes of E2M1 whose tensor says F4 have the values that the writer's own code reads from the same bytes
// as I8, U8 or words.
func TestF4LikeItsTwins(t *testing.T) {
	f4 := func(e entry, perElement int) entry {
		e.DType, e.Shape = "F4", append(slices.Clone(e.Shape[:len(e.Shape)-1]), perElement*e.Shape[len(e.Shape)-1])
		return e
	}
	for _, tt := range []struct {
		fixture, scheme string
		codes           string // the end of the codes' names
		per             int    // codes in an element
		rename          map[string]string
		scale           string // a type for what is called .scale
	}{
		{"fp8-deepseek-v4", "mxfp4", "embed_tokens.weight", 2, nil, ""},
		{"modelopt-nvfp4", "nvfp4", "k_proj.weight", 2, nil, ""},
		{"ct-nvfp4", "nvfp4", "_packed", 2, nil, ""},
		{"ct-mxfp4", "mxfp4", "_packed", 2, nil, ""},
		{"ct-mxfp4", "mxfp4", "_packed", 2, map[string]string{"_packed": "", "_scale": "_scale"}, "F8_E8M0"},
		{"mlx-fp", "mxfp4", ".weight", 8, map[string]string{".scales": ".scale"}, "F8_E8M0"},
		{"mlx-fp", "nvfp4", ".weight", 8, map[string]string{".scales": ".scale"}, "F8_E4M3"},
	} {
		group := map[string]int{"mxfp4": 32, "nvfp4": 16}[tt.scheme]
		// The fixture with another description of the same bytes.
		b := must(os.ReadFile(filepath.Join(quantizedData, tt.fixture, "model.safetensors")))(t)
		n := 8 + binary.LittleEndian.Uint64(b)
		header := map[string]json.RawMessage{}
		if err := json.Unmarshal(b[8:n], &header); err != nil {
			t.Fatal(err)
		}
		delete(header, "__metadata__")
		tensors := map[string]entry{}
		for name, text := range header {
			var e entry
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			tensors[name] = e
		}
		for _, name := range slices.Collect(maps.Keys(tensors)) {
			e := tensors[name]
			scales := strings.HasSuffix(name, "scale") || strings.HasSuffix(name, ".scales")
			switch {
			case strings.HasSuffix(name, tt.codes) && (e.DType == "I8" || e.DType == "U8" || e.DType == "U32"):
				e = f4(e, tt.per)
			case scales && tt.scale != "" && e.DType == "U8":
				e.DType = tt.scale
			}
			delete(tensors, name)
			for from, to := range tt.rename {
				if stem, ok := strings.CutSuffix(name, from); ok {
					name = stem + to
					break
				}
			}
			tensors[name] = e
		}
		text, err := json.Marshal(tensors)
		if err != nil {
			t.Fatal(err)
		}
		m := openBytes(t, modeltest.WithHeader(string(text), b[n:]...), nil)
		want := openPath(t, filepath.Join(quantizedData, tt.fixture, "expected.safetensors"), nil)
		checked := 0
		for x := range want.Tensors() {
			got, err := m.Tensor(x.Name())
			if err != nil {
				got = tensor(t, m, x.Name()+".weight")
			}
			parts := got.Parts()
			if len(parts) == 0 || parts[0].Tensor.DType() != layout.F4 || got.Scheme().Scheme != tt.scheme {
				continue // of another type or mode
			}
			if s := got.Scheme(); s.GroupCols != uint64(group) {
				t.Errorf("%s: %s in groups of %d", tt.fixture, got.Name(), s.GroupCols)
			}
			checked++
			if err := sameAsExpected(x, got); err != nil {
				t.Errorf("%s %s: %v", tt.fixture, tt.scale, err)
			}
		}
		if checked == 0 {
			for x := range m.Tensors() {
				t.Logf("%s %v %v %v", x.Name(), x.DType(), x.Shape(), x.Problem())
			}
			t.Errorf("%s %s: no weight of F4", tt.fixture, tt.scale)
		}
	}
}

// TestF4Refused: F4 and F6 that may be codes of something else are refused, with a reason, and have the values of their type as they
// are stored.
func TestF4Refused(t *testing.T) {
	codes := func(d layout.DType, shape ...int) modeltest.Tensor { return modeltest.Random("x.weight", d, shape...) }
	scale := func(name string, d layout.DType, shape ...int) modeltest.Tensor {
		return modeltest.Random(name, d, shape...)
	}
	for _, tt := range []struct {
		want    string
		tensors []modeltest.Tensor
	}{
		{"F4 without a scale", []modeltest.Tensor{codes(layout.F4, 2, 64)}},
		{"F6_E2M3 without a scale", []modeltest.Tensor{codes(layout.F6_E2M3, 2, 64)}},
		{`F6_E3M2 beside "x.scale"`, []modeltest.Tensor{codes(layout.F6_E3M2, 2, 64), scale("x.scale", layout.F8_E8M0, 2, 2)}},
		{"does not fit shape [2 64] in groups of 32", []modeltest.Tensor{codes(layout.F4, 2, 64), scale("x.scale", layout.F8_E8M0, 2, 4)}},
		{"does not fit shape [2 64] in groups of 16", []modeltest.Tensor{codes(layout.F4, 2, 64), scale("x.scale", layout.F8_E4M3, 2, 2)}},
		{"rows of 3, which fill no bytes", []modeltest.Tensor{codes(layout.F4, 4, 3), scale("x.scale", layout.F8_E8M0, 4, 1)}},
		{"of scales", []modeltest.Tensor{codes(layout.F4, 2, 64), scale("x.scale", layout.F8_E4M3, 2, 4), scale("x.scale_2", layout.F32, 1)}},
	} {
		m := openBytes(t, modeltest.SafeTensors(tt.tensors...), nil)
		x := tensor(t, m, "x.weight")
		if err := x.Problem(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"x.weight"`) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if _, err := x.Float32s(); err == nil {
			t.Errorf("%s: values", tt.want)
		}
		if v, err := x.Stored().Float32s(); err != nil || uint64(len(v)) != x.Elements() {
			t.Errorf("%s as stored: %d values, %v", tt.want, len(v), err)
		}
	}
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("c", layout.C64, 3)), nil)
	if _, err := tensor(t, m, "c").Float32s(); err == nil || !strings.Contains(err.Error(), "C64 has no values in float32: complex numbers are two") {
		t.Error(err)
	}
}

// TestSmallFloats expands types whose blocks do not end with rows, in every way: whole, by rows, by ranges, as a factor.
func TestSmallFloats(t *testing.T) {
	for _, d := range []layout.DType{layout.F8_E8M0, layout.F8_E4M3FNUZ, layout.F8_E5M2FNUZ, layout.F6_E2M3, layout.F6_E3M2, layout.F4} {
		c := modeltest.Random("x", d, 8, 3)
		for i, b := range c.Data { // neither NaN nor far from 1
			if c.Data[i] = b & 0x7f; d == layout.F8_E8M0 {
				c.Data[i] = 120 + b%16
			}
		}
		want := make([]float32, 24)
		if err := dequant.Expand(d, want, c.Data); err != nil {
			t.Fatal(err)
		}
		eachWay(t, modeltest.SafeTensors(modeltest.Random("before", layout.U8, 5), c), func(t *testing.T, m *loader.Model) {
			x := tensor(t, m, "x").Stored()
			for from := range want {
				for n := range len(want) - from {
					got := make([]float32, n)
					if err := x.DequantizeRange(got, uint64(from)); err != nil || !slices.Equal(got, want[from:][:n]) {
						t.Fatalf("%v: %d from %d: %v, %v", d, n, from, got, err)
					}
				}
			}
			for name, expand := range expansions {
				if got, err := expand(x); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v: %s: %v, %v", d, name, got, err)
				}
			}
			got := make([]float32, 8)
			if err := x.MatVec(t.Context(), got, []float32{1, 2, 4}); err != nil {
				t.Fatal(err)
			}
			for i, y := range got {
				if r := want[3*i:]; y != r[0]+2*r[1]+4*r[2] {
					t.Errorf("%v: row %d times the vector is %v, rows %v", d, i, y, r[:3])
				}
			}
		})
	}
}
