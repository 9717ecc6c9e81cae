package loader_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/loader"
)

// disguised lets the tensors of files of APR2 and SafeTensors pass for something else, until the test ends or disguises them anew.
func disguised(t *testing.T, disguise func(f layout.File, list []layout.Tensor) layout.File) {
	t.Helper()
	for format, original := range originalDecoders {
		format.Decode = func(in layout.Input, lim *layout.Limits) (layout.File, error) {
			f, err := original(in, lim)
			if err != nil {
				return nil, err
			}
			return disguise(f, f.Index().Tensors), nil
		}
		t.Cleanup(func() { format.Decode = original })
	}
}

var originalDecoders = map[*layout.FileFormat]layout.Decoder{&apr2.Format: apr2.Format.Decode, &safetensors.Format: safetensors.Format.Decode}

// packing is a format that stores the elements of "x" with their bits inverted, to be had
// only as a whole.
type packing struct {
	layout.File
	unpacked *atomic.Int64
	err      error
}

func (p packing) Unpack(in layout.Input, t *layout.Tensor, dst []byte) error {
	p.unpacked.Add(1)
	b, err := in.Slice(t.Offset, t.Stored)
	if err != nil {
		return err
	}
	for i := range dst {
		dst[i] = ^b[i]
	}
	return p.err
}

// packed returns a file whose tensor "x" is c, packed. unpacked counts how often that is unpacked, which ends with fail.
func packed(t *testing.T, c modeltest.Tensor, fail error) (file []byte, unpacked *atomic.Int64) {
	t.Helper()
	unpacked = new(atomic.Int64)
	disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
		list[1].Encoding = layout.Protobuf
		return packing{f, unpacked, fail}
	})
	inverted := c
	inverted.Data = bytes.Clone(c.Data)
	for i := range inverted.Data {
		inverted.Data[i] ^= 0xff
	}
	return modeltest.APR2Model(t, nil, modeltest.Random("before", layout.U8, 5), inverted, modeltest.Random("after", layout.U8, 5)), unpacked
}

func TestPackedEveryWay(t *testing.T) {
	for _, d := range []layout.DType{layout.F32, layout.I64, layout.Q8_0} {
		c := modeltest.Random("x", d, 9, 5, 256)
		want := make([]float32, c.Elements())
		if err := dequant.Expand(d, want, c.Data); err != nil {
			t.Fatal(err)
		}
		for _, p := range placements {
			for name, expand := range expansions {
				file, unpacked := packed(t, c, nil)
				if got, err := expand(tensor(t, p.of(t, file, nil), "x")); err != nil || !modeltest.SameFloats(got, want) || d == layout.F32 && !modeltest.SameBits(got, want) {
					t.Errorf("%s of %v, %s: %v, or other values", name, d, p.name, err)
				}
				if n := unpacked.Load(); n != 1 {
					t.Errorf("%s of %v, %s: unpacked %d times", name, d, p.name, n)
				}
			}
			file, unpacked := packed(t, c, nil)
			x := tensor(t, p.of(t, file, nil), "x")
			var out bytes.Buffer
			n, err := x.WriteTo(&out)
			b, err2 := x.Bytes()
			if err != nil || err2 != nil || n != int64(len(c.Data)) || !bytes.Equal(out.Bytes(), c.Data) || !bytes.Equal(b, c.Data) || unpacked.Load() != 1 {
				t.Errorf("%v, %s: other bytes, unpacked %d times; %v, %v", d, p.name, unpacked.Load(), err, err2)
			}
			if x.ZeroCopy() || x.Encoding() != layout.Protobuf {
				t.Errorf("zero copy %v, %v", x.ZeroCopy(), x.Encoding())
			}
		}
	}
}

// TestPackedIsHeld: going through a tensor unpacks it once, even if nothing is cached.
func TestPackedIsHeld(t *testing.T) {
	for _, name := range []string{"Values, rows of 1", "Values, rows of 7", "Values(1001)"} {
		file, unpacked := packed(t, modeltest.Random("x", layout.F16, 30, 256), nil)
		if _, err := expansions[name](tensor(t, openBytes(t, file, &loader.Options{CacheBytes: -1}), "x")); err != nil || unpacked.Load() != 1 {
			t.Errorf("%s: unpacked %d times; %v", name, unpacked.Load(), err)
		}
	}
}

func TestPackedFails(t *testing.T) {
	c := modeltest.Random("x", layout.F16, 3, 256)
	bad := layout.Errorf(layout.April, 77, "float_data", layout.ErrInvalid, "bad")
	file, unpacked := packed(t, c, bad)
	x := tensor(t, openPath(t, modeltest.Write(t, "model", file), nil), "x")
	for name, call := range tensorCalls {
		if name == "View" || name == "Scale" || name == "WriteDecrypted" {
			continue
		}
		if err := call(x); !errors.Is(err, bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if unpacked.Load() < 5 {
		t.Errorf("unpacked %d times", unpacked.Load())
	}
	disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
		list[0].Encoding = layout.Protobuf
		return f // which cannot unpack
	})
	x = tensor(t, openBytes(t, modeltest.APR2Model(t, nil, c), nil), "x")
	for name, err := range map[string]error{
		"Bytes":   func() error { _, err := x.Bytes(); return err }(),
		"WriteTo": func() error { _, err := x.WriteTo(io.Discard); return err }(),
		"ReadAt":  func() error { _, err := x.ReadAt(make([]byte, 1), 1); return err }(),
	} {
		if !errors.Is(err, loader.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWholeTensorTypes has the types whose tensors are more than their blocks: APR_Q8 has a
// scale before its elements, the last block of APR_Q4 is filled up. APR2 has no ids for them.
func TestWholeTensorTypes(t *testing.T) {
	for _, d := range []layout.DType{layout.APR_Q4, layout.APR_Q8} {
		shape := []int{5, 7, 2341}
		c := modeltest.Random("x", d, shape...)
		if d == layout.APR_Q8 {
			copy(c.Data, []byte{0, 0, 0x20, 0x3e}) // 0.15625
		}
		want := make([]float32, 5*7*2341)
		if err := dequant.Expand(d, want, c.Data); err != nil {
			t.Fatal(err)
		}
		disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
			list[1].DType, list[1].Shape = d, shape
			return f
		})
		bytesOf := modeltest.Tensor{Name: "x", DType: layout.U8, Shape: []int{len(c.Data)}, Data: c.Data}
		plain := modeltest.APR2Model(t, nil, modeltest.Random("before", layout.U8, 5), bytesOf, modeltest.Random("after", layout.U8, 5))
		for encoding, file := range map[string][]byte{"raw": plain, "lz4": lz4Model(t, bytesOf)} {
			for _, p := range placements {
				x := tensor(t, p.of(t, file, nil), "x")
				for name, expand := range expansions {
					if got, err := expand(x); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s of %v, %s, %s: %v, or other values", name, d, encoding, p.name, err)
					}
				}
				if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) {
					t.Errorf("Bytes of %v, %s, %s: %v, or others", d, encoding, p.name, err)
				}
			}
		}
	}
}

// TestHeadIsReadOnce counts the requests for two rows of a tensor with a head.
func TestHeadIsReadOnce(t *testing.T) {
	c := modeltest.Tensor{Name: "x", DType: layout.U8, Shape: []int{4 + 30}, Data: append([]byte{0, 0, 0x20, 0x3e}, make([]byte, 30)...)}
	disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
		list[0].DType, list[0].Shape = layout.APR_Q8, []int{5, 6}
		return f
	})
	file := modeltest.APR2Model(t, nil, c)
	r := &counter{r: bytes.NewReader(file)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(file)), nil)
	x := tensor(t, modeltest.Opened(t, m, err), "x")
	row := make([]float32, 6)
	for i, want := range []int64{2, 1, 1} {
		r.reset()
		if err := x.DequantizeRows(row, uint64(i), 1); err != nil || r.reads.Load() != want {
			t.Errorf("row %d: %d requests, want %d; %v", i, r.reads.Load(), want, err)
		}
	}
}

// TestLeaseLetsGoOfPacked: a lease pins a packed tensor that it handed out or read a part of,
// and no other.
func TestLeaseLetsGoOfPacked(t *testing.T) {
	c := modeltest.Random("x", layout.I8, 30, 256)
	pinned := map[string]int{"Bytes": 1, "View": 1, "Float32s": 1, "Dequantize": 1, "DequantizeRows": 1,
		"DequantizeRange": 1, "ReadAt": 1, "MatVec": 1, "MatMul": 1}
	for name, call := range tensorCalls {
		if name == "WriteDecrypted" {
			continue
		}
		file, _ := packed(t, c, nil)
		l := must(openBytes(t, file, &loader.Options{CacheBytes: -1}).Acquire())(t)
		if err := call(tensor(t, l, "x")); err != nil || loader.Pins(l) != pinned[name] {
			t.Errorf("%s: %d entries are pinned, want %d; %v", name, loader.Pins(l), pinned[name], err)
		}
		l.Release()
	}
}
