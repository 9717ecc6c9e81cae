package values_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/content/contenttest"
	"github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/loader/internal/values/valuestest"
	"github.com/tensormap/tensormap/mmapio"
)

const rows, cols = 150, 512

// contents are ways in which bytes come into reach: in place, read, compressed.
var contents = map[string]func(t *testing.T, b []byte) *content.Cached{
	"in place": func(_ *testing.T, b []byte) *content.Cached { return contenttest.Cached(content.Memory(b)) },
	"read": func(_ *testing.T, b []byte) *content.Cached {
		f := file.New("file", mmapio.FromReaderAt(bytes.NewReader(b), int64(len(b))))
		return contenttest.Cached(&content.Stored{File: f, Length: uint64(len(b))})
	},
	"large": func(_ *testing.T, b []byte) *content.Cached {
		f := file.New("file", mmapio.FromBytes(b))
		return contenttest.Cached(&content.Stored{File: f, Length: uint64(len(b)), Large: true})
	},
	"LZ4": func(t *testing.T, b []byte) *content.Cached {
		blocks := content.Memory(modeltest.Blocks(t, b))
		return contenttest.Cached(content.LZ4{Table: content.NewTable(layout.APR2, 0, blocks.Size(), uint64(len(b))), Stored: blocks})
	},
}

// run runs the suite over contents of each kind.
func run(t *testing.T, want []float32, stored []byte, open func(in *content.Cached) values.Values) {
	for kind, in := range contents {
		t.Run(kind, func(t *testing.T) {
			valuestest.Run(t, want, cols, func(t *testing.T) values.Values { return open(in(t, stored)) })
		})
	}
}

// typed returns stored elements, their values, and how Typed is made of the elements.
func typed(t *testing.T, d layout.DType) (stored []byte, want []float32, open func(in *content.Cached) *values.Typed) {
	_, size := d.ByteRange(0, rows*cols)
	stored, want = modeltest.Noise(size, 1), make([]float32, rows*cols)
	if err := dequant.Expand(d, want, stored); err != nil {
		t.Fatal(err)
	}
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return stored, want, func(in *content.Cached) *values.Typed {
		return &values.Typed{Content: in, Count: rows * cols, Codec: &c}
	}
}

// TestTyped: elements of every kind of dtype.
func TestTyped(t *testing.T) {
	dtypes := []layout.DType{layout.F32, layout.F16, layout.BF16, layout.F64, layout.I8, layout.F8_E4M3, layout.F4, layout.Q4_0, layout.Q6_K, layout.IQ3_S}
	if testmode.Brief() {
		dtypes = []layout.DType{layout.F32, layout.BF16, layout.Q4_0}
	}
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			stored, want, open := typed(t, d)
			run(t, want, stored, func(in *content.Cached) values.Values { return open(in) })
		})
	}
}

// TestTypedFinds: a codec that is found out at the first read, with a scale: after one that fails.
func TestTypedFinds(t *testing.T) {
	stored, want := modeltest.Noise(rows*cols, 1), make([]float32, rows*cols)
	for i, b := range stored {
		want[i] = 0.5 * float32(int(int8(b))-3)
	}
	run(t, want, stored, func(in *content.Cached) values.Values {
		failed := false
		v := &values.Typed{Content: in, Count: rows * cols, FindCodec: func(context.Context, content.Env) (dequant.Codec, error) {
			if !failed {
				failed = true
				return dequant.Codec{}, errNone
			}
			return dequant.NewCodec(layout.I8, layout.Quant{Scale: 0.5, Zero: 3}, true)
		}}
		if err := v.Read(t.Context(), content.Env{}, make([]float32, 1), 0); !errors.Is(err, errNone) {
			t.Errorf("the first read: %v", err)
		}
		return v
	})
}

var errNone = errors.New("none")

// TestScaled multiplies other values by a factor for three matrices.
func TestScaled(t *testing.T) {
	stored, want, open := typed(t, layout.Q4_0)
	factors := []float32{0.5, -3, 1.1}
	for i := range want {
		want[i] *= factors[i/(rows*cols/3)]
	}
	run(t, want, stored, func(in *content.Cached) values.Values {
		return &values.Scaled{Values: open(in), MatrixSize: rows * cols / 3, WrapError: func(err error) error { return err },
			Factors: func(context.Context, content.Env) ([]float32, error) { return factors, nil }}
	})
}

// TestRows puts rows in another order, some of them more than once.
func TestRows(t *testing.T) {
	stored, plain, open := typed(t, layout.Q8_0)
	order := make([]uint32, rows)
	for i := range order {
		order[i] = uint32(i * 7 % 100)
		if i >= 100 {
			order[i] = uint32(i) // which stay together
		}
	}
	want := make([]float32, 0, len(plain))
	for _, row := range order {
		want = append(want, plain[row*cols:][:cols]...)
	}
	run(t, want, stored, func(in *content.Cached) values.Values {
		return &values.Rows{Values: open(in), Cols: cols, Order: order}
	})
}

// TestGrouped multiplies int8s by a scale for 64 of a row, less an offset.
func TestGrouped(t *testing.T) {
	g := dequant.Grouped{Code: layout.CodeInt8, Pack: layout.PackRows, Rows: rows, Cols: cols, GroupRows: 1, GroupCols: 64}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	stored := modeltest.Noise(rows*cols, 1)
	scales, offsets := make([]float32, rows*cols/64), make([]float32, rows*cols/64)
	for i := range scales {
		scales[i], offsets[i] = float32(i%13)/8, float32(i%5)
	}
	want := make([]float32, rows*cols)
	for i, b := range stored {
		want[i] = (float32(int8(b)) - offsets[i/64]) * scales[i/64]
	}
	for name, all := range map[string]bool{"all scales": true, "ranges of scales": false} {
		t.Run(name, func(t *testing.T) {
			run(t, want, stored, func(in *content.Cached) values.Values {
				return &values.Grouped{Geometry: g, Count: rows * cols, Codes: in, Scales: memoryScales{scales, offsets, all},
					Check: func(context.Context, content.Env) error { return nil }, WrapError: func(err error) error { return err }}
			})
		})
	}
}

// memoryScales has the scales of groups in memory, all at once or by ranges.
type memoryScales struct {
	scales, offsets []float32
	all             bool
}

func (m memoryScales) All(context.Context, content.Env, uint64, uint64) (values.Scaling, bool, error) {
	return values.Scaling{Scales: m.scales, Offsets: m.offsets}, m.all, nil
}

func (m memoryScales) Read(_ context.Context, _ content.Env, mem *values.Scratch, from, count uint64) (values.Scaling, error) {
	s := values.Scaling{Scales: mem.Floats[:count], Offsets: mem.Floats[count:][:count], From: from}
	copy(s.Scales, m.scales[from:])
	copy(s.Offsets, m.offsets[from:])
	return s, nil
}

// TestCached: values in a cache, before and after All has put them there.
func TestCached(t *testing.T) {
	stored, want, open := typed(t, layout.Q6_K)
	for _, name := range []string{"empty", "filled"} {
		t.Run(name, func(t *testing.T) {
			run(t, want, stored, func(in *content.Cached) values.Values {
				v := &values.Cached{Uncached: open(in), Store: contenttest.NewStore(), Key: cache.Key{Tensor: 2, Kind: cache.Float32}}
				if name == "filled" {
					all, err := v.All(t.Context(), content.Env{})
					if err != nil || !modeltest.SameFloats(all, want) {
						t.Fatal(err)
					}
				}
				return v.Current()
			})
		})
	}
}

// TestEncoded runs the suite of contents on what Encoded returns, for values that are stored in another way, and for such that are stored
// as the same elements.
func TestEncoded(t *testing.T) {
	for _, test := range []struct{ stored, as layout.DType }{
		{layout.Q8_0, layout.F32}, {layout.BF16, layout.F32}, {layout.F32, layout.BF16}, {layout.F32, layout.F16},
		{layout.F32, layout.F32}, {layout.BF16, layout.BF16},
	} {
		stored, plain, open := typed(t, test.stored)
		isSame := test.as == test.stored
		want := stored
		if !isSame {
			want = valuestest.Bytes(test.as, plain)
		}
		for kind, in := range contents {
			t.Run(fmt.Sprintf("%v as %v/%s", test.stored, test.as, kind), func(t *testing.T) {
				contenttest.RunElements(t, want, uint64(test.as.BlockBytes()), func(t *testing.T) content.Content {
					v := open(in(t, stored))
					encoded, err := values.Encoded(v, test.as)
					if err != nil {
						t.Fatal(err)
					}
					if isSame {
						return asStored{encoded, v.Source().Cost()}
					}
					return encoded
				})
			})
		}
	}
}

// asStored is the content of values that are stored as the same elements, so that it has the views of these.
type asStored struct {
	content.Content
	cost content.Cost
}

func (s asStored) Cost() content.Cost { return s.cost }

// TestRefused has no values, and says why in each method.
func TestRefused(t *testing.T) {
	v := values.Refused{Reason: errNone, Content: content.Memory{1, 2, 3}}
	_, _, blocks := v.Blocks(t.Context(), content.Env{})
	c := values.Cached{Uncached: v, Store: contenttest.NewStore()}
	_, all := c.All(t.Context(), content.Env{})
	encoded, err := values.Encoded(v, layout.F32)
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Err": v.Err(), "Read": v.Read(t.Context(), content.Env{}, nil, 0), "Blocks": blocks, "All": all,
		"Encoded":     content.Write(t.Context(), content.Env{}, encoded, io.Discard),
		"ReadEncoded": values.ReadEncoded(t.Context(), content.Env{}, v, layout.F32, nil, 0),
	} {
		if !errors.Is(err, errNone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if v.Elements() != 0 || v.Source().Size() != 3 {
		t.Error(v.Elements(), v.Source())
	}
}

// TestEncodable: what values can be written as.
func TestEncodable(t *testing.T) {
	for d := range layout.DType(math.MaxUint8) {
		if err := values.Encodable(d); (err == nil) != (d == layout.F32 || d == layout.F16 || d == layout.BF16) || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", d, err)
		}
	}
}
