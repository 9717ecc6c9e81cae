package convert_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestParts: a quantized weight is copied as its parts, bit for bit, or written by its values under its own name.
func TestParts(t *testing.T) {
	norm, _ := weights("norm.weight", 64)
	for name, tt := range map[string]struct {
		scheme, codes string
		shape         []int
		parts         []content
	}{
		"fp8":      {"fp8", "a.weight", []int{128, 128}, []content{counting("a.weight", layout.F8_E4M3, 128, 128), counting("a.weight_scale_inv", layout.F32, 1, 1)}},
		"awq":      {"awq", "a.qweight", []int{64, 64}, []content{counting("a.qweight", layout.I32, 64, 8), counting("a.scales", layout.F16, 2, 64), counting("a.qzeros", layout.I32, 2, 8)}},
		"int8":     {"bnb-int8", "a.weight", []int{16, 8}, []content{counting("a.weight", layout.I8, 16, 8), counting("a.SCB", layout.F32, 16)}},
		"modelopt": {"nvfp4", "a.weight", []int{8, 64}, []content{counting("a.weight", layout.U8, 8, 32), counting("a.weight_scale", layout.F8_E4M3, 8, 4), counting("a.weight_scale_2", layout.F32)}},
		"mlx":      {"mxfp4", "a.weight", []int{8, 64}, []content{counting("a.weight", layout.U32, 8, 8), counting("a.scales", layout.U8, 8, 2)}},
		"scales":   {"fp8", "a.weight", []int{8, 8}, []content{counting("a.weight_scale", layout.BF16, 8, 1), counting("a.weight", layout.F8_E4M3, 8, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := "{}"
			if name == "mlx" {
				metadata = `{"apr2.quantization":"{\"quant_method\":\"mlx\",\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}"}`
			}
			m := open(t, write(t, safeTensors(0, metadata, append([]content{norm}, tt.parts...)...)), &loader.Options{})
			want := values(t, tensor(t, m, "a.weight"))
			for _, d := range []layout.DType{layout.F32, layout.F16, layout.Q8_0} {
				out, p := toAPR2(t, m, &convert.Options{DType: d})
				x := tensor(t, out, "a.weight")
				if out.Len() != 2 || len(p.Quantized) != 0 || !sameShape(x, tt.shape) || x.Scheme() != nil {
					t.Fatalf("%v: %d tensors, %v %v", d, out.Len(), x.DType(), x.Shape())
				}
				if fits := tt.shape[1]%32 == 0; x.DType() != d && (d != layout.Q8_0 || fits || x.DType() != layout.F32) {
					t.Errorf("%v: is %v", d, x.DType())
				}
				if got := values(t, x); x.DType() == layout.F32 && !sameBits(got, want) {
					t.Errorf("%v: other values", d)
				}
			}
			out, p := toAPR2(t, m, nil)
			sameTensors(t, open(t, out.Path(), &loader.Options{Stored: true}), open(t, m.Path(), &loader.Options{Stored: true}))
			again, q := toAPR2(t, m, &convert.Options{DType: layout.Q8_0, All: true, Keep: func(name string) bool { return name == "a.weight" }})
			if x := tensor(t, again, "norm.weight"); x.DType() != layout.Q8_0 || len(kept(q)) != len(tt.parts) {
				t.Errorf("%v, kept %v", x.DType(), kept(q))
			}
			for _, p := range []*convert.Plan{p, q} {
				if len(p.Quantized) != 1 || p.Quantized[0].Codes != tt.codes || p.Quantized[0].Scheme != tt.scheme {
					t.Errorf("%+v", p.Quantized)
				}
			}
		})
	}
}

func values(t *testing.T, x loader.Tensor) []float32 {
	t.Helper()
	list, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sameBits reports whether all values are equal, NaNs among them.
func sameBits(a, b []float32) bool {
	return modeltest.SameBits(a, b) || slices.EqualFunc(a, b, func(a, b float32) bool { return a == b || a != a && b != b })
}

func sameShape(x loader.Tensor, want []int) bool {
	return slices.Equal(x.Shape(), want)
}

// TestCodesWithoutValues: codes that cannot be decoded are copied, or it is an error, and nothing is written.
func TestCodesWithoutValues(t *testing.T) {
	norm, _ := weights("norm.weight", 64)
	for name, tt := range map[string]struct {
		codes string
		parts []content
	}{
		"plain F8": {"a.weight", []content{counting("a.weight", layout.F8_E5M2, 8, 8)}},
		"exl3":     {"a.trellis", []content{counting("a.trellis", layout.I16, 8, 8, 64), counting("a.suh", layout.F16, 128), counting("a.svh", layout.F16, 128)}},
		"misfit":   {"a.weight", []content{counting("a.weight", layout.F8_E4M3, 8, 8), counting("a.weight_scale", layout.F32, 3, 5)}},
	} {
		m := open(t, write(t, safeTensors(0, "{}", append([]content{norm}, tt.parts...)...)), &loader.Options{})
		for _, d := range []layout.DType{layout.F32, layout.Q8_0, layout.I8} {
			dir := t.TempDir()
			_, err := convert.Write(context.Background(), m, filepath.Join(dir, "out.apr"), &convert.Options{DType: d})
			var part *convert.CodesError
			if !errors.As(err, &part) || !errors.Is(err, layout.ErrUnsupported) || part.Name != tt.codes {
				t.Fatalf("%s, %v: %v", name, d, err)
			}
			if msg := err.Error(); !strings.HasPrefix(msg, m.Files()[0].Path+`: tensor "`+tt.codes+`": `) || strings.Count(msg, m.Files()[0].Path) != 1 {
				t.Error(msg)
			}
			onlyFiles(t, dir)
		}
		out, p := toAPR2(t, m, nil)
		sameTensors(t, open(t, out.Path(), &loader.Options{Stored: true}), open(t, m.Path(), &loader.Options{Stored: true}))
		again, q := toAPR2(t, m, &convert.Options{DType: layout.BF16, Keep: func(name string) bool { return name == tt.codes }})
		if x := tensor(t, again, "norm.weight"); x.DType() != layout.BF16 || len(kept(q)) != len(tt.parts) || len(p.Quantized) != 0 {
			t.Errorf("%s: %v, kept %v", name, x.DType(), kept(q))
		}
		if name == "plain F8" {
			out, _ := toAPR2(t, m, &convert.Options{DType: layout.F32, PlainF8: true})
			if x := tensor(t, out, "a.weight"); x.DType() != layout.F32 {
				t.Errorf("%v", x.DType())
			}
		}
	}
}

// TestPartsAcrossShards: the scale of codes may be in another file.
func TestPartsAcrossShards(t *testing.T) {
	m := open(t, write(t, safeTensors(0, "{}", counting("a.weight", layout.F8_E4M3, 8, 8), counting("b.weight_scale", layout.F32), counting("b.weight", layout.F8_E4M3, 8, 8))), &loader.Options{})
	path := filepath.Join(t.TempDir(), "out.safetensors")
	r, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: 65})
	if err != nil || r.Shards != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	sharded := open(t, r.Path, &loader.Options{})
	want := []convert.Weight{{Scheme: "fp8", Codes: "b.weight", Scale: "b.weight_scale"}}
	if _, r := toAPR2(t, sharded, nil); !slices.Equal(r.Quantized, want) {
		t.Errorf("%+v", r.Quantized)
	}
}

// TestPartsAreExpandedAsOne where the new format has no type for the codes.
func TestPartsAreExpandedAsOne(t *testing.T) {
	codes, scale := counting("blk.0.ffn_up.weight", layout.NVFP4, 8, 64), counting("blk.0.ffn_up.scale", layout.F32, 1)
	m := openBytes(t, apr2File(t, nil, codes, scale))
	for _, opts := range []*convert.Options{nil, {DType: layout.F16, Keep: func(string) bool { return true }}} {
		out, p := toSafeTensors(t, m, opts)
		x := tensor(t, out, codes.name)
		if out.Len() != 1 || x.DType() != layout.F32 || len(p.Quantized) != 0 || !sameBits(values(t, x), values(t, tensor(t, m, codes.name))) {
			t.Errorf("%d tensors, %v", out.Len(), x.DType())
		}
	}
	alone, _ := toSafeTensors(t, openBytes(t, apr2File(t, nil, codes)), nil) // as files are whose scale is 1
	if x := tensor(t, alone, codes.name); x.DType() != layout.F32 {
		t.Errorf("%v", x.DType())
	}
}
