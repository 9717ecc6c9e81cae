package loader_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// reordered opens a model with one matrix twice, the second time with its rows in the order that is returned.
func reordered(tb testing.TB, d layout.DType, rows, cols int) (plain, other loader.Tensor, order []uint32) {
	c := modeltest.Random("x", d, rows, cols)
	m := openBytes(tb, modeltest.APR2Model(tb, nil, []modeltest.Tensor{c, {Name: "y", DType: c.DType, Shape: c.Shape, Data: c.Data}}...), nil)
	for _, row := range rand.New(rand.NewPCG(1, 2)).Perm(rows) {
		order = append(order, uint32(row))
	}
	slices.Sort(order[:rows/4]) // some rows stay together
	plain, other = tensor(tb, m, "x"), tensor(tb, m, "y")
	loader.Reorder(other, order)
	return plain, other, order
}

// TestReordered finds rows by an index, without moving what is stored: values, ranges within rows and across them,
// products.
func TestReordered(t *testing.T) {
	for _, d := range []layout.DType{layout.Q4_0, layout.F16, layout.F32, layout.F64} {
		const rows, cols, n = 40, 96, 2
		plain, other, order := reordered(t, d, rows, cols)
		stored, want, got := make([]float32, rows*cols), make([]float32, rows*cols), make([]float32, rows*cols)
		if err := plain.Dequantize(stored); err != nil {
			t.Fatal(err)
		}
		for i, row := range order {
			copy(want[i*cols:], stored[int(row)*cols:][:cols])
		}
		if err := other.Dequantize(got); err != nil || !modeltest.SameBits(got, want) {
			t.Errorf("%s: other values, %v", d, err)
		}
		if got, err := other.Float32s(); err != nil || !modeltest.SameBits(got, want) {
			t.Errorf("%s: other values of Float32s, %v", d, err)
		}
		for first := 0; first < rows*cols; first += 50 {
			part := got[:min(3*cols+7, rows*cols-first)]
			if err := other.DequantizeRange(part, uint64(first)); err != nil || !modeltest.SameBits(part, want[first:][:len(part)]) {
				t.Errorf("%s: other values from element %d on, %v", d, first, err)
			}
		}
		xs := make([]float32, n*cols)
		for i := range xs {
			xs[i] = float32(i%7) - 3
		}
		products, reordered := make([]float32, n*rows), make([]float32, n*rows)
		if err := plain.MatMul(t.Context(), products, xs, n); err != nil {
			t.Fatal(err)
		}
		if err := other.MatMul(t.Context(), reordered, xs, n); err != nil {
			t.Fatal(err)
		}
		for i, row := range order {
			for k := range n {
				if got, want := reordered[k*rows+i], products[k*rows+int(row)]; got != want && got == got {
					t.Errorf("%s: product %d of vector %d is %v, want %v", d, i, k, got, want)
				}
			}
		}
	}
}

// BenchmarkMatVecReordered compares products of rows that an index finds with those of rows in order.
func BenchmarkMatVecReordered(b *testing.B) {
	const rows, cols = 4096, 4096
	plain, other, _ := reordered(b, layout.Q4_0, rows, cols)
	for _, of := range []struct {
		name string
		x    loader.Tensor
	}{{"plain", plain}, {"reordered", other}} {
		b.Run("rows="+of.name, func(b *testing.B) {
			dst, x := make([]float32, rows), make([]float32, cols)
			for i := range x {
				x[i] = float32(i%7) - 3
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := of.x.MatVec(b.Context(), dst, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
