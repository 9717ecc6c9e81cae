package loader_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// region returns the elements of a tensor, of n bytes each, that are in ranges: one index after the other.
func region(all []byte, n int, shape []int, ranges []loader.Range) (out []byte) {
	pos := make([]int, len(shape))
	for at := 0; at < len(all)/n; at++ {
		in := true
		for i, p := range pos {
			if i < len(ranges) && ranges[i] != loader.All() && (p < ranges[i].First || p >= ranges[i].First+ranges[i].N) {
				in = false
			}
		}
		if in {
			out = append(out, all[at*n:][:n]...)
		}
		for i := len(pos) - 1; i >= 0; i-- {
			if pos[i]++; pos[i] < shape[i] {
				break
			}
			pos[i] = 0
		}
	}
	return out
}

// TestSlice compares regions with a loop over all elements: mapped, read, and from afar.
func TestSlice(t *testing.T) {
	shape := []int{5, 7, 4, 6}
	n := 5 * 7 * 4 * 6
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	raw := modeltest.Float32s(values...)
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.F32, Shape: shape, Data: raw},
		modeltest.Tensor{Name: "scalar", DType: layout.F32, Shape: []int{}, Data: raw[:4]},
		modeltest.Tensor{Name: "empty", DType: layout.F32, Shape: []int{3, 0}})
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range kindsNamed("Open", "Open/NoMap", "OpenReaderAt") {
		m := k.of(t, file, nil)
		w := tensor(t, m, "w")
		for range 300 {
			ranges := make([]loader.Range, rng.IntN(5))
			for i := range ranges {
				if ranges[i] = loader.All(); rng.IntN(3) > 0 {
					first := rng.IntN(shape[i] + 1)
					ranges[i] = loader.Range{First: first, N: rng.IntN(shape[i] - first + 1)}
				}
			}
			s, err := w.Slice(ranges...)
			if err != nil {
				t.Fatal(ranges, err)
			}
			want := region(raw, 4, shape, ranges)
			size, err := s.RawBytes()
			if err != nil || size != uint64(len(want)) || s.Elements() != size/4 {
				t.Fatal(ranges, size, len(want), err)
			}
			got, floats := make([]byte, size), make([]float32, size/4)
			if err := errors.Join(s.Bytes(got), s.Dequantize(floats)); err != nil || !bytes.Equal(got, want) || !bytes.Equal(modeltest.Float32s(floats...), want) {
				t.Fatalf("%v: %v", ranges, err)
			}
		}
		for _, name := range []string{"scalar", "empty"} {
			tensor, _ := m.Tensor(name)
			s, err := tensor.Slice()
			if err == nil {
				err = s.Dequantize(make([]float32, tensor.Elements()))
			}
			if err != nil {
				t.Error(name, err)
			}
		}
		for _, ranges := range [][]loader.Range{{{First: -1, N: 1}}, {{First: 0, N: 6}}, {{First: 6, N: 0}}, {{First: 1, N: -1}}, slices.Repeat([]loader.Range{loader.All()}, 5)} {
			if _, err := w.Slice(ranges...); !errors.Is(err, loader.ErrRange) {
				t.Errorf("%v: %v", ranges, err)
			}
		}
		s, _ := w.Slice(loader.Range{First: 1, N: 1})
		if err := s.Dequantize(make([]float32, 3)); !errors.Is(err, loader.ErrRange) {
			t.Error(err)
		}
		if err := s.Bytes(nil); !errors.Is(err, loader.ErrRange) {
			t.Error(err)
		}
	}
}

// Blocks are handed out whole. Values need no block's boundary.
func TestSliceBlocks(t *testing.T) {
	const rows, cols = 6, 256
	data := make([]byte, rows*cols/32*34)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range data {
		data[i] = byte(rng.IntN(256))
	}
	for i := 1; i < len(data); i += 34 {
		data[i] &= 0x3f // scales are finite
	}
	m, err := loader.OpenBytes(modeltest.APR2(t, nil, modeltest.Tensor{Name: "w", DType: layout.Q8_0, Shape: []int{rows, cols}, Data: data}), nil)
	modeltest.Opened(t, m, err)
	w, err := m.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	all := make([]float32, rows*cols)
	if err := w.Dequantize(all); err != nil {
		t.Fatal(err)
	}
	inside, err := w.Slice(loader.Range{First: 2, N: 3}, loader.Range{First: 33, N: 100})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 300)
	if err := inside.Dequantize(got); err != nil || !bytes.Equal(modeltest.Float32s(got...), region(modeltest.Float32s(all...), 4, []int{rows, cols}, []loader.Range{{First: 2, N: 3}, {First: 33, N: 100}})) {
		t.Error("other values", err)
	}
	if _, err := inside.RawBytes(); !errors.Is(err, loader.ErrUnsupported) {
		t.Error(err)
	}
	blocks, _ := w.Slice(loader.Range{First: 2, N: 3}, loader.Range{First: 64, N: 96})
	stored := make([]byte, 3*3*34)
	if err := blocks.Bytes(stored); err != nil || !bytes.Equal(stored, region(data, 34, []int{rows, cols / 32}, []loader.Range{{First: 2, N: 3}, {First: 2, N: 3}})) {
		t.Error("other blocks", err)
	}
}

// From afar, near runs come together, and no others.
func TestSliceFromAfar(t *testing.T) {
	const rows, cols = 64, 1 << 17 // a row has 512 KiB
	data := make([]byte, rows*cols*4)
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "wide", DType: layout.F32, Shape: []int{rows, cols}, Data: data},
		modeltest.Tensor{Name: "narrow", DType: layout.F32, Shape: []int{rows * 128, cols / 128}, Data: data})
	from := newDistant("model.safetensors", file)
	m := from.open(t, nil)
	for _, test := range []struct {
		tensor string
		ranges []loader.Range
		reads  int64
		bytes  int64
	}{
		{"wide", []loader.Range{{First: 8, N: 16}}, 1, 16 * cols * 4},
		{"wide", []loader.Range{loader.All(), {First: 0, N: 1000}}, rows, rows * 4000},              // 508 KiB between runs
		{"narrow", []loader.Range{{First: 0, N: 128}, {First: 100, N: 10}}, 1, 127*cols/128*4 + 40}, // 4 KiB between runs
	} {
		tensor, err := m.Tensor(test.tensor)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tensor.Slice(test.ranges...)
		if err != nil {
			t.Fatal(err)
		}
		from.traffic.reset()
		if err := s.Dequantize(make([]float32, s.Elements())); err != nil {
			t.Fatal(err)
		}
		if reads, n := from.traffic.requests.Load(), from.traffic.bytes.Load(); reads > test.reads || n > test.bytes {
			t.Errorf("%s %v: %d reads of %d bytes, want %d of %d", test.tensor, test.ranges, reads, n, test.reads, test.bytes)
		}
	}
}
