package loader_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// tooLarge are the calls that put a whole tensor, or whole rows of it, on the heap.
var tooLarge = map[string]func(x loader.Tensor) error{
	"Bytes":    func(x loader.Tensor) error { _, err := x.Bytes(); return err },
	"Float32s": func(x loader.Tensor) error { _, err := x.Float32s(); return err },
}

func TestTensorBytes(t *testing.T) {
	// Misaligned, so that Bytes has to copy: 1024 bytes stored, 4096 as float32.
	b := modeltest.SafeTensorsAt(1, "", modeltest.Random("w", layout.F32, 4, 64))
	for _, limit := range []int64{1023, 1024} {
		x := tensor(t, openBytes(t, b, &loader.Options{TensorBytes: limit}), "w")
		for name, call := range tooLarge {
			if err := call(x); errors.Is(err, loader.ErrTooLarge) != (limit < 1024) {
				t.Errorf("%s of 1024 bytes with a limit of %d: %v", name, limit, err)
			}
		}
	}
}

// A small file may claim a tensor larger than all memory, where it is sparse.
func TestSparseTensor(t *testing.T) {
	if testmode.Brief() || math.MaxInt == math.MaxInt32 {
		t.Skip("a sparse file of 8 TiB")
	}
	const rows, cols = math.MaxInt>>31 + 1, 1 << 10
	probe := fmt.Sprintf("%s/probe", t.TempDir())
	if err := errors.Join(os.WriteFile(probe, nil, 0o666), os.Truncate(probe, 9<<40)); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	path := modeltest.SparseAPR2(t, modeltest.Tensor{Name: "w", DType: layout.F16, Shape: []int{rows, cols}})
	x := tensor(t, openPath(t, path, nil), "w")
	if _, err := x.Float32s(); !errors.Is(err, loader.ErrTooLarge) {
		t.Errorf("Float32s: %v", err)
	}
	row := make([]float32, cols)
	if err := x.DequantizeRows(row, rows-1, 1); err != nil {
		t.Errorf("the last row: %v", err)
	}
}

// Metadata that is malformed is parsed once, however often it is asked for.
func TestMetadataErrorIsKept(t *testing.T) {
	b := modeltest.APR2Model(t, nil, modeltest.Random("i", layout.I8, 4))
	b[32] = '!' // the metadata's brace
	m := openBytes(t, withFooter(b), nil)
	_, first := m.Metadata()
	_, second := m.Metadata()
	_, third := tensor(t, m, "i").Float32s()
	if first == nil || first != second || !errors.Is(third, errors.Unwrap(first)) {
		t.Errorf("%v, then %v, then %v", first, second, third)
	}
}
