// Package valuestest tests an implementation of [values.Values]: [Run] is what all of them pass.
package valuestest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/narrow"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/content/contenttest"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// Run tests every method of Values that must be want, a matrix with rows of cols elements. open returns the Values
// anew, with nothing cached.
func Run(t *testing.T, want []float32, cols int, open func(t *testing.T) values.Values) {
	size := uint64(len(want))
	t.Run("Ranges", func(t *testing.T) {
		v := open(t)
		if err := v.Err(); err != nil || v.Elements() != size || v.Source() == nil {
			t.Fatalf("%d values, want %d, of %v, %v", v.Elements(), size, v.Source(), err)
		}
		for _, r := range contenttest.Ranges(size) {
			checkRange(t, v, want, r)
		}
	})
	t.Run("Cancelled", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		v := open(t)
		few := contenttest.Ranges(size)
		few = few[:min(len(few), 10)]
		for _, r := range few {
			dst := make([]float32, r.N)
			if err := v.Read(ended, content.Env{}, dst, r.Off); err == nil && !modeltest.SameFloats(dst, want[r.Off:][:r.N]) || err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("%v: %v", r, err)
			}
		}
		for _, r := range few { // a context that has not ended reads again
			checkRange(t, v, want, r)
		}
	})
	t.Run("Concurrent", func(t *testing.T) {
		v := open(t)
		contenttest.Concurrently(size, 10_000, func(r contenttest.Range) bool { return checkRange(t, v, want, r) })
	})
	t.Run("Allocations", func(t *testing.T) {
		v := open(t)
		if v.Source().Cost().ReadBytes != 0 || testmode.Races() || testmode.ChecksPointers() {
			t.Skip("not in place")
		}
		ctx, dst := t.Context(), make([]float32, min(len(want), cols))
		if n := testing.AllocsPerRun(100, func() { v.Read(ctx, content.Env{}, dst, size-uint64(len(dst))) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
	t.Run("Blocks", func(t *testing.T) { checkBlocks(t, want, cols, open(t)) })
	t.Run("Encoded", func(t *testing.T) { checkEncoded(t, want, open(t)) })
}

// checkRange compares the values that Read returns for range r with want, all values of v, and checks that Read writes
// nothing around dst. It reports whether all is right, after an error of t if not.
func checkRange(t *testing.T, v values.Values, want []float32, r contenttest.Range) bool {
	t.Helper()
	want = want[r.Off:][:r.N]
	buf := make([]float32, r.N+2)
	buf[0], buf[r.N+1] = 1234, 5678
	err := mmapio.Guard(func() error { return v.Read(t.Context(), content.Env{}, buf[1:][:r.N], r.Off) })
	if err != nil || !modeltest.SameFloats(buf[1:][:r.N], want) || buf[0] != 1234 || buf[r.N+1] != 5678 {
		t.Errorf("%v: other values, the first at %d, %v", r, modeltest.Differ(buf[1:][:r.N], want), err)
		return false
	}
	return true
}

// checkBlocks reads the rows that Blocks returns one by one, expands and scales them, and compares them with want. It skips
// the test if Blocks returns none, or rows that begin within a block.
func checkBlocks(t *testing.T, want []float32, cols int, v values.Values) {
	b, ok, err := v.Blocks(t.Context(), content.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if !ok || cols%b.DType.BlockElems() != 0 {
		t.Skip("rows are read first")
	}
	_, row := b.DType.ByteRange(0, uint64(cols))
	got, src := make([]float32, cols), make([]byte, row)
	for i := range len(want) / cols {
		at := uint64(i)
		if b.Order != nil {
			at = uint64(b.Order[i])
		}
		if err := content.Read(t.Context(), content.Env{}, b.Content, src, b.From+at*row); err != nil {
			t.Fatal(err)
		}
		if err := dequant.Expand(b.DType, got, src); err != nil {
			t.Fatal(err)
		}
		for j := range got {
			got[j] *= b.Scale
		}
		if !modeltest.SameFloats(got, want[i*cols:][:cols]) {
			t.Fatalf("row %d differs", i)
		}
	}
}

// Bytes returns floats as elements of type d, which is F32, F16 or BF16.
func Bytes(d layout.DType, floats []float32) []byte {
	b := make([]byte, len(floats)*d.BlockBytes())
	switch d {
	case layout.F16:
		narrow.F16(b, floats)
	case layout.BF16:
		narrow.BF16(b, floats)
	default:
		copy(b, mmapio.Bytes(floats))
	}
	return b
}

// checkEncoded compares the bytes that Encoded and ReadEncoded return for F32, F16 and BF16 with those of all values encoded
// at once. want gives only their number.
func checkEncoded(t *testing.T, want []float32, v values.Values) {
	plain := make([]float32, len(want))
	if err := v.Read(t.Context(), content.Env{}, plain, 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range []layout.DType{layout.F32, layout.F16, layout.BF16} {
		if b, ok, _ := v.Blocks(t.Context(), content.Env{}); ok && b.DType == d {
			continue // bytes as they are, NaNs not quieted
		}
		want := Bytes(d, plain)
		encoded, err := values.Encoded(v, d)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := content.Write(t.Context(), content.Env{}, encoded, &out); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("Write as %v: %d other bytes, %v", d, out.Len(), err)
		}
		for _, r := range contenttest.Ranges(uint64(len(plain))) {
			if size := uint64(d.BlockBytes()); r.Off%5 == 0 {
				dst := make([]byte, r.N*size)
				if err := values.ReadEncoded(t.Context(), content.Env{}, v, d, dst, r.Off); err != nil || !bytes.Equal(dst, want[r.Off*size:][:r.N*size]) {
					t.Fatalf("ReadEncoded %v as %v: %v", r, d, err)
				}
			}
		}
	}
}
