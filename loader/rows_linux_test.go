package loader_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/x448/float16"
	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestRowTouchesItsPages looks up one embedding in a Q4_0 table of 300 MB, and asks the
// kernel what has come into memory.
func TestRowTouchesItsPages(t *testing.T) {
	const rows, cols, row = 131_072, 4096, 77_777
	const rowBytes = cols / 32 * 18
	table := modeltest.Tensor{Name: "table", DType: layout.Q4_0, Shape: []int{rows, cols}}
	path := modeltest.SparseAPR2(t, table)
	m := openPath(t, path, nil)
	x := tensor(t, m, "table")
	// A row of blocks with scales 1, 2, 3, … and random nibbles, and its values as the block's definition has them.
	var want []float32
	b := modeltest.Noise(rowBytes, 9)
	for block := 0; block < rowBytes; block += 18 {
		d := float32(block/18 + 1)
		binary.LittleEndian.PutUint16(b[block:], uint16(float16.Fromfloat32(d)))
		values := make([]float32, 32)
		for j, nibbles := range b[block+2 : block+18] {
			values[j] = d * float32(int(nibbles&15)-8)
			values[j+16] = d * float32(int(nibbles>>4)-8)
		}
		want = append(want, values...)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(x.Offset())+row*rowBytes); err != nil {
		t.Fatal(err)
	}

	mapping := loader.MappingOf(m)
	if err := mapping.Advise(mmapio.Random, 0, mapping.Size()); err != nil {
		t.Fatal(err)
	}
	dropPages(t, path, m)
	pages := func(off, n uint64) uint64 {
		bytes, err := mapping.Resident(off, n)
		if err != nil {
			t.Fatal(err)
		}
		return (bytes + uint64(os.Getpagesize()) - 1) / uint64(os.Getpagesize())
	}
	at := x.Offset() + row*rowBytes
	if n := pages(at, rowBytes); n != 0 {
		t.Skipf("the kernel keeps %d pages of the row, so reading it shows nothing", n)
	}
	before := pages(0, mapping.Size())

	got := make([]float32, cols)
	if err := x.DequantizeRows(got, row, 1); err != nil {
		t.Fatal(err)
	}
	if !modeltest.SameFloats(got, want) {
		t.Error("the row has other values")
	}
	if n := pages(at, rowBytes); n == 0 {
		t.Error("the row was read, but none of its pages is in memory: the measurement is wrong")
	}
	if n := pages(0, mapping.Size()) - before; n > rowBytes/4096+2 {
		t.Errorf("%d pages came into memory for a row of %d bytes", n, rowBytes)
	}
}

// dropPages takes the file out of the page cache.
func dropPages(t *testing.T, path string, m *loader.Model) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	mapping := loader.MappingOf(m)
	if err := mapping.Advise(mmapio.DontNeed, 0, mapping.Size()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

func TestOpenReadsNoData(t *testing.T) {
	path := modeltest.SparseAPR2(t, modeltest.Tensor{Name: "x", DType: layout.F32, Shape: []int{1 << 24}})
	m := openPath(t, path, nil)
	for range m.Tensors() {
	}
	n, err := m.ResidentBytes()
	if mapped := m.Stats().MappedBytes; err != nil || mapped < 1<<26 || n > 1<<20 {
		t.Errorf("%d of %d bytes are in memory, %v", n, mapped, err)
	}
}
