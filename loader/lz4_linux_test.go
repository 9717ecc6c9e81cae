package loader_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestCompressedRowTouchesItsBlock looks up one row of a compressed table of 26 MB, and asks
// the kernel what has come into memory: the row's block, and of those before it their
// lengths, once.
func TestCompressedRowTouchesItsBlock(t *testing.T) {
	const rows, cols = 6400, 4096 // 16 rows of a byte each a block
	c := modeltest.Random("table", layout.U8, rows, cols)
	c.LZ4 = modeltest.LiteralBlocks(c.Data)
	var starts []uint64
	for at := uint64(0); at < uint64(len(c.LZ4)); at += 4 + uint64(binary.LittleEndian.Uint32(c.LZ4[at:])) {
		starts = append(starts, at)
	}
	path := modeltest.Write(t, "m", lz4Model(t, c))
	m := openPath(t, path, nil)
	x := tensor(t, m, "table")
	mapping, page := loader.MappingOf(m), uint64(os.Getpagesize())
	pages := func(off, n uint64) uint64 {
		bytes, err := mapping.Resident(off, n)
		if err != nil {
			t.Fatal(err)
		}
		return (bytes + page - 1) / page
	}
	look := func(row uint64) (touched uint64) {
		t.Helper()
		if err := mapping.Advise(mmapio.Random, 0, mapping.Size()); err != nil {
			t.Fatal(err)
		}
		dropPages(t, path, m)
		before := pages(0, mapping.Size())
		if n := pages(x.Offset()+starts[row/16], lz4block.Size/2); n != 0 {
			t.Skipf("the kernel keeps %d pages of the row's block, so reading it shows nothing", n)
		}
		got := make([]float32, cols)
		if err := x.DequantizeRows(got, row, 1); err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if want := float32(c.Data[row*cols+uint64(i)]); v != want {
				t.Fatalf("row %d, column %d: %v, want %v", row, i, v, want)
			}
		}
		return pages(0, mapping.Size()) - before
	}
	block := uint64(lz4block.MaxStored)/page + 2
	if n := look(100*16 + 3); n < 100 || n > 100+block {
		t.Errorf("the first row touched %d pages, want those of 100 lengths and a block, %d at most", n, 100+block)
	}
	for _, row := range []uint64{7 * 16, 55*16 + 15, 99 * 16} {
		if n := look(row); n < 4 || n > block {
			t.Errorf("row %d touched %d pages, want those of a block, %d at most", row, n, block)
		}
	}
}
