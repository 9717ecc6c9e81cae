package convert_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestParts: what belongs to a quantized weight is copied bit for bit, or it is an error, and nothing
// is written.
func TestParts(t *testing.T) {
	norm, _ := weights("norm.weight", 64)
	for name, tt := range map[string]struct {
		scheme, first string // the first part in the file
		parts         []content
	}{
		"fp8":      {"fp8", "a.weight", []content{counting("a.weight", layout.F8_E4M3, 128, 128), counting("a.weight_scale_inv", layout.F32, 1, 1)}},
		"awq":      {"awq", "a.qweight", []content{counting("a.qweight", layout.I32, 64, 8), counting("a.scales", layout.F16, 2, 64), counting("a.qzeros", layout.I32, 2, 8)}},
		"int8":     {"bnb-int8", "a.weight", []content{counting("a.weight", layout.I8, 16, 8), counting("a.SCB", layout.F32, 16)}},
		"modelopt": {"nvfp4", "a.weight", []content{counting("a.weight", layout.U8, 8, 32), counting("a.weight_scale", layout.F8_E4M3, 8, 4), counting("a.weight_scale_2", layout.F32)}},
		"mlx":      {"mxfp4", "a.weight", []content{counting("a.weight", layout.U32, 8, 8), counting("a.scales", layout.U8, 8, 2)}},
		"scales":   {"fp8", "a.weight_scale", []content{counting("a.weight_scale", layout.BF16, 8, 1), counting("a.weight", layout.F8_E4M3, 8, 8)}},
		"plain":    {"", "a.weight", []content{counting("a.weight", layout.F8_E5M2, 8, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			codes := tt.parts[0].name
			if name == "scales" {
				codes = "a.weight"
			}
			m := open(t, write(t, safeTensors(0, "{}", append([]content{norm}, tt.parts...)...)), &loader.Options{})
			stored := open(t, m.Path(), nil)
			for _, d := range []layout.DType{layout.F32, layout.F16, layout.Q8_0, layout.I8} {
				dir := t.TempDir()
				_, err := convert.Write(context.Background(), m, filepath.Join(dir, "out.apr"), &convert.Options{DType: d, PlainF8: name != "plain"})
				var part *convert.PartError
				if !errors.As(err, &part) || !errors.Is(err, layout.ErrUnsupported) || part.Name != tt.first || part.Codes != codes || part.Scheme != tt.scheme {
					t.Fatalf("%v: %v", d, err)
				}
				if msg := err.Error(); !strings.HasPrefix(msg, m.Files()[0].Path+`: tensor "`+tt.first+`": `) || strings.Count(msg, m.Files()[0].Path) != 1 {
					t.Error(msg)
				}
				onlyFiles(t, dir)
				if _, err := convert.NewPlan(context.Background(), m, filepath.Join(dir, "out.apr"), &convert.Options{DType: d}); !errors.As(err, &part) {
					t.Errorf("%v: plan: %v", d, err)
				}
			}
			out, r := toAPR2(t, m, nil)
			sameTensors(t, out, stored)
			again, q := toAPR2(t, m, &convert.Options{DType: layout.Q8_0, All: true, Keep: func(name string) bool { return name != "norm.weight" }})
			if x := tensor(t, again, "norm.weight"); x.DType() != layout.Q8_0 || len(kept(q)) != len(tt.parts) {
				t.Errorf("%v, kept %v", x.DType(), kept(q))
			}
			if name == "plain" {
				out, r := toAPR2(t, m, &convert.Options{DType: layout.F32, PlainF8: true})
				if x := tensor(t, out, "a.weight"); x.DType() != layout.F32 || len(r.Quantized) != 0 {
					t.Errorf("%v, %v", x.DType(), r.Quantized)
				}
				return
			}
			for _, r := range []*convert.Plan{r, q} {
				if len(r.Quantized) != 1 || r.Quantized[0].Codes != codes || r.Quantized[0].Scheme != tt.scheme {
					t.Errorf("%+v", r.Quantized)
				}
			}
		})
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
	want := []convert.Part{{Scheme: "fp8", Codes: "b.weight", Scale: "b.weight_scale"}}
	if _, r := toAPR2(t, sharded, nil); !slices.Equal(r.Quantized, want) {
		t.Errorf("%+v", r.Quantized)
	}
}

// TestPartsAreNotExpanded where the new format has no type for the codes.
func TestPartsAreNotExpanded(t *testing.T) {
	codes, scale := counting("blk.0.ffn_up.weight", layout.NVFP4, 8, 64), counting("blk.0.ffn_up.scale", layout.F32, 1)
	m := openBytes(t, apr2File(t, nil, codes, scale))
	var part *convert.PartError
	if _, err := convert.Write(context.Background(), m, filepath.Join(t.TempDir(), "out.safetensors"), nil); !errors.As(err, &part) || part.Scale != scale.name {
		t.Errorf("%v", err)
	}
	alone, _ := toSafeTensors(t, openBytes(t, apr2File(t, nil, codes)), nil) // as files are whose scale is 1
	if x := tensor(t, alone, codes.name); x.DType() != layout.F32 {
		t.Errorf("%v", x.DType())
	}
}
