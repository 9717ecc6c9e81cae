package loader_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestRanges(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.Q4_0, 5, 2, 32)) // 10 rows
	const most = math.MaxUint64
	rows := func(dst int, first, n uint64) func(loader.Tensor) error {
		return func(x loader.Tensor) error { return x.DequantizeRows(make([]float32, dst), first, n) }
	}
	elements := func(dst int, first uint64) func(loader.Tensor) error {
		return func(x loader.Tensor) error { return x.DequantizeRange(make([]float32, dst), first) }
	}
	all := func(dst int) func(loader.Tensor) error {
		return func(x loader.Tensor) error { return x.Dequantize(make([]float32, dst)) }
	}
	tests := []struct {
		name string
		read func(x loader.Tensor) error
		ok   bool
	}{
		{"all rows", rows(320, 0, 10), true},
		{"last row", rows(32, 9, 1), true},
		{"no row", rows(0, 3, 0), true},
		{"no row at the end", rows(0, 10, 0), true},
		{"no row behind the end", rows(0, 11, 0), false},
		{"one row too many", rows(352, 0, 11), false},
		{"row behind the end", rows(32, 10, 1), false},
		{"row 2^64-1", rows(32, most, 1), false},
		{"no row at 2^64-1", rows(0, most, 0), false},
		{"2^64-1 rows", rows(32, 1, most), false},
		{"2^64-1 rows from 2^64-1", rows(32, most, most), false},
		{"2^59 rows, whose values are none modulo 2^64", rows(0, 0, 1<<59), false},
		{"room for a row less", rows(32, 0, 2), false},
		{"room for a value more", rows(33, 0, 1), false},

		{"range across blocks", elements(40, 30), true},
		{"last element", elements(1, 319), true},
		{"nothing at the end", elements(0, 320), true},
		{"nothing behind the end", elements(0, 321), false},
		{"range past the end", elements(2, 319), false},
		{"element 2^64-1", elements(1, most), false},

		{"whole", all(320), true},
		{"room for less", all(319), false},
		{"room for more", all(321), false},
		{"no room", all(0), false},

		{"values in no buffer", func(x loader.Tensor) (err error) {
			for _, err = range x.Values(nil) {
			}
			return err
		}, false},
	}
	eachWay(t, file, func(t *testing.T, m *loader.Model) {
		x := tensor(t, m, "x")
		for _, tt := range tests {
			err := tt.read(x)
			if tt.ok && err != nil || !tt.ok && !errors.Is(err, loader.ErrRange) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if err != nil && (!strings.Contains(err.Error(), `tensor "x": `) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: message %q", tt.name, err)
			}
		}
	})
}

func TestScalar(t *testing.T) {
	c := modeltest.Tensor{Name: "x", DType: layout.I16, Shape: nil, Data: []byte{0xfe, 0xff}} // -2
	eachWay(t, modeltest.SafeTensorsAt(1, "", c), func(t *testing.T, m *loader.Model) {
		x := tensor(t, m, "x")
		if len(x.Shape()) != 0 || x.Elements() != 1 {
			t.Errorf("shape %v", x.Shape())
		}
		if v, err := x.Float32s(); err != nil || len(v) != 1 || v[0] != -2 {
			t.Errorf("Float32s: %v, %v", v, err)
		}
		dst := []float32{0}
		if err := x.DequantizeRows(dst, 0, 1); err != nil || dst[0] != -2 {
			t.Errorf("DequantizeRows: %v, %v", dst, err)
		}
		if err := x.DequantizeRows(dst, 1, 1); !errors.Is(err, loader.ErrRange) {
			t.Errorf("second row: %v", err)
		}
		steps := 0
		for run, err := range x.Values(make([]float32, 4)) {
			if steps++; err != nil || run.First != 0 || len(run.Values) != 1 || run.Values[0] != -2 {
				t.Errorf("Values: %+v, %v", run, err)
			}
		}
		if steps != 1 {
			t.Errorf("Values: %d steps", steps)
		}
	})
}

func TestEmptyTensors(t *testing.T) {
	const huge = math.MaxInt
	tensors := []modeltest.Tensor{
		modeltest.Random("a", layout.F32, 0), modeltest.Random("b", layout.F16, 3, 0), modeltest.Random("c", layout.I64, 0, 3),
		modeltest.Random("d", layout.F32, huge, 0, huge), modeltest.Random("e", layout.U8, huge, huge, 0), modeltest.Random("f", layout.F16, 0, huge, huge),
		modeltest.Random("odd", layout.U8, 1), // the next is at an odd offset
		modeltest.Random("g", layout.F64, 0, 2), modeltest.Random("h", layout.F32, 2, 0),
	}
	for format, b := range map[string][]byte{"safetensors": modeltest.SafeTensorsAt(3, "", tensors...), "apr2": modeltest.APR2Model(t, nil, tensors...)} {
		t.Run(format, func(t *testing.T) {
			eachWay(t, b, func(t *testing.T, m *loader.Model) {
				for x := range m.Tensors() {
					if x.Name() == "odd" {
						continue
					}
					if b, err := x.Bytes(); err != nil || len(b) != 0 || b == nil {
						t.Errorf("%s: Bytes: %v, %v", x.Name(), b, err)
					}
					if v, err := x.Float32s(); err != nil || len(v) != 0 || v == nil {
						t.Errorf("%s: Float32s: %v, %v", x.Name(), v, err)
					}
					if err := errors.Join(x.Dequantize(nil), x.DequantizeRows(nil, 0, 0), x.DequantizeRange(nil, 0)); err != nil {
						t.Errorf("%s: %v", x.Name(), err)
					}
					if err := x.DequantizeRange(make([]float32, 1), 0); !errors.Is(err, loader.ErrRange) {
						t.Errorf("%s: a value of none: %v", x.Name(), err)
					}
					if n, err := x.WriteTo(new(strings.Builder)); n != 0 || err != nil {
						t.Errorf("%s: WriteTo: %d, %v", x.Name(), n, err)
					}
					for values, err := range x.Values(nil) {
						t.Errorf("%s: Values: %v, %v", x.Name(), values, err)
					}
				}
			})
		})
	}
}

func TestUnsupportedDTypes(t *testing.T) {
	for _, d := range []layout.DType{layout.C64, layout.F8_E4M3FNUZ, layout.F4, layout.F6_E3M2} {
		c := modeltest.Random("x", d, 4, 4)
		eachWay(t, modeltest.SafeTensors(c), func(t *testing.T, m *loader.Model) {
			x := tensor(t, m, "x")
			for name, expand := range expansions {
				if _, err := expand(x); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), d.String()) {
					t.Errorf("%v: %s: %v", d, name, err)
				}
			}
			if err := x.DequantizeRange(make([]float32, 1), 5); !errors.Is(err, loader.ErrUnsupported) {
				t.Errorf("%v: DequantizeRange: %v", d, err)
			}
			if b, err := x.Bytes(); err != nil || string(b) != string(c.Data) {
				t.Errorf("%v: Bytes: %v", d, err)
			}
		})
	}
}
