package loader_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestScaledFixture(t *testing.T) {
	m := openPath(t, "../testdata/apr2/scaled.apr", nil)
	// By hand, from the integers -3 0 5 127 and -300 300 that the fixture's JSON lists: the
	// scales 0.1 and 0.0025, and the zero point -3, are in its metadata.
	tests := []struct {
		name   string
		quant  layout.Quant
		scaled bool
		values []float32
	}{
		{"w", layout.Quant{Scale: 0.1, Zero: -3}, true, []float32{0, 0.3, 0.8, 13}},
		{"v", layout.Quant{Scale: 0.0025}, true, []float32{-0.75, 0.75}},
		{"ids", layout.Quant{}, false, []float32{1, 2}},
	}
	// Products are rounded once.
	closeTo := func(a, b float32) bool { return math.Abs(float64(a-b)) <= math.Abs(float64(b))/(1<<23) }
	for _, tt := range tests {
		x := tensor(t, m, tt.name)
		if q, scaled, err := x.Scale(); q != tt.quant || scaled != tt.scaled || err != nil {
			t.Errorf("%s: %+v, %v, %v", tt.name, q, scaled, err)
		}
		if got, err := x.Float32s(); !slices.EqualFunc(got, tt.values, closeTo) || err != nil {
			t.Errorf("%s: %v, want %v, %v", tt.name, got, tt.values, err)
		}
	}
}

// TestScaled expands scaled integers in every way.
func TestScaled(t *testing.T) {
	md := quantization("I8 0.1, I16 -3e-5, I32 0.5, I64 7, F32 2, U8 2", "I8 -3, I32 100000")
	quants := map[layout.DType]layout.Quant{
		layout.I8: {Scale: 0.1, Zero: -3}, layout.I16: {Scale: -3e-5}, layout.I32: {Scale: 0.5, Zero: 100000}, layout.I64: {Scale: 7},
	}
	var tensors []modeltest.Tensor
	for _, d := range []layout.DType{layout.I8, layout.I16, layout.I32, layout.I64, layout.F32, layout.U8} {
		tensors = append(tensors, modeltest.Random(d.String(), d, 6, 1000))
	}
	file := modeltest.APR2Model(t, md, tensors...)
	for _, p := range placements {
		m := p.of(t, file, nil)
		for _, c := range tensors {
			x := tensor(t, m, c.Name)
			quant, wantScaled := quants[c.DType]
			q, scaled, err := x.Scale()
			if q != quant || scaled != wantScaled || err != nil {
				t.Errorf("%s: scale %+v, %v, %v", c.Name, q, scaled, err)
			}
			want := make([]float32, c.Elements())
			if wantScaled { // one by one
				width := c.DType.BlockBytes()
				for i := range want {
					n := int64(0)
					for b, octet := range c.Data[i*width:][:width] {
						n |= int64(octet) << (8 * b)
					}
					shift := 64 - 8*width
					n = n << shift >> shift // the sign
					want[i] = float32(float64(quant.Scale) * float64(n-quant.Zero))
				}
			} else if err := dequant.Expand(c.DType, want, c.Data); err != nil {
				t.Fatal(err)
			}
			for name, expand := range expansions {
				if got, err := expand(x); err != nil || !modeltest.SameBits(got, want) {
					t.Errorf("%s, %s, %s: other values, %v", p.name, c.Name, name, err)
				}
			}
			last := make([]float32, 1)
			if err := x.DequantizeRange(last, 5999); err != nil || !modeltest.SameFloats(last, want[5999:6000]) {
				t.Errorf("%s, %s: value 5999 is %v, want %v, %v", p.name, c.Name, last, want[5999], err)
			}
		}
	}
}

func TestScaleOverflow(t *testing.T) {
	c := modeltest.Tensor{Name: "x", DType: layout.I64, Shape: []int{1}, Data: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}} // the least int64
	md := quantization("x 1", "x 1")
	for _, p := range placements {
		x := tensor(t, p.of(t, modeltest.APR2Model(t, md, c), nil), "x")
		for name, read := range expansions {
			if _, err := read(x); !errors.Is(err, dequant.ErrOverflow) {
				t.Errorf("%s, %s: %v", p.name, name, err)
			}
		}
	}
}

// TestBadScales: what needs the metadata fails, all else works.
func TestBadScales(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("i8", layout.I8, 2, 2), modeltest.Random("f16", layout.F16, 2, 2)}
	for _, bad := range []layout.Metadata{
		quantization("i8 0", ""),
		quantization("i8 1e99", ""),
		{{Value: layout.Metadata{{Key: "scales", Value: layout.Metadata{{Key: "i8", Value: "1"}}}}}},
		quantization("", "i8 1"),
		quantization("i8 1", "i8 1.5"),
	} {
		// No Writer writes it, so it gets its name afterwards.
		b := modeltest.APR2Model(t, layout.Metadata{{Key: "Quantization", Value: bad[0].Value}}, tensors...)
		m := openBytes(t, bytes.Replace(b, []byte("Quantization"), []byte("quantization"), 1), nil)
		var fe *layout.FormatError
		for name, read := range expansions {
			if _, err := read(tensor(t, m, "i8")); !errors.As(err, &fe) {
				t.Errorf("%v: %s: %v", bad, name, err)
			}
			if _, err := read(tensor(t, m, "f16")); err != nil {
				t.Errorf("%v: %s of F16: %v", bad, name, err)
			}
		}
		if _, _, err := tensor(t, m, "i8").Scale(); !errors.As(err, &fe) {
			t.Errorf("%v: Scale: %v", bad, err)
		}
		if b, err := tensor(t, m, "i8").Bytes(); err != nil || !slices.Equal(b, tensors[0].Data) {
			t.Errorf("%v: Bytes: %v", bad, err)
		}
		if _, err := loader.View[int8](tensor(t, m, "i8")); err != nil {
			t.Errorf("%v: View: %v", bad, err)
		}
	}
}
