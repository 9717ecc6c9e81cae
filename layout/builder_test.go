package layout_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func defaults() layout.Limits { return (*layout.Limits)(nil).WithDefaults() }

func newBuilder(t testing.TB, size, count uint64) *layout.Builder {
	t.Helper()
	return layout.NewBuilder(layout.GGUF, size, count, "offset", defaults())
}

// u8 is a tensor of size bytes at off.
func u8(name string, off, size uint64) layout.Tensor {
	return layout.Tensor{Name: []byte(name), DType: layout.U8, Shape: []int{layout.Dim(size)}, Offset: off, Stored: size}
}

func TestBuilderAddErrors(t *testing.T) {
	lz4 := func(stored, raw uint64) layout.Tensor {
		x := u8("a", 8, 16)
		x.Encoding, x.Stored, x.Raw = layout.LZ4, stored, raw
		return x
	}
	shaped := func(d layout.DType, stored uint64, shape ...int) layout.Tensor {
		return layout.Tensor{Name: []byte("a"), DType: d, Shape: shape, Offset: 8, Stored: stored}
	}
	ones := func(n int) []int { return slices.Repeat([]int{1}, n) }
	// The file has 100 bytes, its data section those from 8 to 72.
	tests := []struct {
		what   string
		tensor layout.Tensor
		field  string
		want   error
		words  []string
	}{
		{"long name", u8(strings.Repeat("n", 65536), 8, 1), "name", layout.ErrLimit, []string{"65536 bytes", "65535"}},
		{"name not UTF-8", u8("a\xffb", 8, 1), "name", layout.ErrInvalid, []string{`"a\xffb"`, "UTF-8"}},
		{"surrogate in name", u8("\xed\xa0\x80", 8, 1), "name", layout.ErrInvalid, []string{"UTF-8"}},
		{"NUL in name", u8("a\x00", 8, 1), "name", layout.ErrInvalid, []string{`"a\x00"`, "NUL"}},
		{"duplicate", u8("first", 8, 1), "name", layout.ErrDuplicate, []string{`"first"`, "tensors 0 and 1"}},
		{"rank", shaped(layout.U8, 1, ones(65)...), "shape", layout.ErrLimit, []string{"65 dimensions", "64"}},
		{"no dtype", shaped(layout.Invalid, 0), "shape", layout.ErrInvalid, []string{"no dtype"}},
		{"dtype out of range", shaped(layout.DType(255), 0, 1), "shape", layout.ErrInvalid, []string{"no dtype"}},
		{"elements overflow", shaped(layout.U8, 0, 1<<30, 1<<30, 16), "shape", layout.ErrInvalid, []string{"2^64 elements"}},
		{"dimension beyond int", shaped(layout.U8, 0, 2, layout.Dim(math.MaxInt+1)), "shape", layout.ErrInvalid, []string{`"a"`, "dimension 1 of shape [2 -1]", strconv.Itoa(math.MaxInt)}},
		{"dimension beyond int of an empty tensor", shaped(layout.U8, 0, layout.Dim(math.MaxUint64), 0), "shape", layout.ErrInvalid, []string{"dimension 0"}},
		{"negative dimension", shaped(layout.U8, 6, -2, -3), "shape", layout.ErrInvalid, []string{"dimension 0"}},
		{"bytes overflow", shaped(layout.F32, 0, 1<<30, 1<<30, 4), "shape", layout.ErrInvalid, []string{"2^64 bytes"}},
		{"row of half a block", shaped(layout.Q8_0, 34, 2, 16), "shape", layout.ErrInvalid, []string{"16 elements"}},
		{"stored too little", shaped(layout.F32, 11, 3), "offset", layout.ErrInvalid, []string{"11 bytes stored", "F32 [3] takes 12"}},
		{"stored too much", shaped(layout.F32, 13, 3), "offset", layout.ErrInvalid, []string{"13 bytes stored"}},
		{"bytes of nothing", shaped(layout.F32, 1, 0), "offset", layout.ErrInvalid, []string{"1 bytes stored"}},
		{"raw_size too small", lz4(9, 15), "raw_size", layout.ErrInvalid, []string{"15 bytes", "U8 [16] takes 16"}},
		{"raw_size too large", lz4(9, 17), "raw_size", layout.ErrInvalid, []string{"17 bytes"}},
		{"end past the file", u8("a", 95, 6), "offset", layout.ErrTruncated, []string{"6 bytes at 95", "file of 100"}},
		{"start past the file", u8("a", 101, 0), "offset", layout.ErrTruncated, []string{"0 bytes at 101"}},
		{"span overflows", u8("a", maxUint64, 2), "offset", layout.ErrTruncated, []string{"2 bytes at 18446744073709551615"}},
		{"size overflows", shaped(layout.U8, maxUint64, 65535, 65537, 641, 6700417), "offset", layout.ErrTruncated, nil},
		{"before the data", u8("a", 7, 1), "offset", layout.ErrInvalid, []string{"1 bytes at 7", "64 bytes at 8"}},
		{"past the data", u8("a", 71, 2), "offset", layout.ErrInvalid, []string{"2 bytes at 71"}},
		{"nothing before the data", u8("a", 7, 0), "offset", layout.ErrInvalid, nil},
		{"nothing past the data", u8("a", 73, 0), "offset", layout.ErrInvalid, nil},
		{"third of two", u8("a", 8, 1), "tensor_count", layout.ErrLimit, []string{"more than 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			b := newBuilder(t, 100, 2)
			b.Data(8, 64)
			if err := add(b, u8("first", 10, 1), 1); err != nil {
				t.Fatal(err)
			}
			if tt.field == "tensor_count" {
				if err := add(b, u8("second", 11, 1), 2); err != nil {
					t.Fatal(err)
				}
			}
			had := len(b.Index().Tensors)
			err := add(b, tt.tensor, 1234)
			layouttest.WantError(t, err, layout.GGUF, 1234, tt.field, tt.want, tt.words...)
			if !strings.Contains(err.Error(), "tensor "+layout.Quote(tt.tensor.Name)) {
				t.Errorf("error %v does not name the tensor", err)
			}
			if len(b.Index().Tensors) != had {
				t.Error("the tensor was added all the same")
			}
		})
	}
}

// The last value that each check lets pass.
func TestBuilderAddAccepts(t *testing.T) {
	lz4 := u8("lz4", 8, 16)
	lz4.Encoding, lz4.Stored, lz4.Raw = layout.LZ4, 9, 16
	tests := []layout.Tensor{
		u8(strings.Repeat("n", 65535), 8, 1),
		u8("", 8, 1),
		u8("▁é\u2028", 8, 1),
		u8("whole", 8, 64),
		u8("empty at the start", 8, 0),
		u8("empty at the end", 72, 0),
		{Name: []byte("rank"), DType: layout.F32, Shape: slices.Repeat([]int{1}, 64), Offset: 8, Stored: 4},
		{Name: []byte("scalar"), DType: layout.F64, Offset: 9, Stored: 8},
		{Name: []byte("void"), DType: layout.VOID, Shape: []int{1 << 30}, Offset: 8},
		lz4,
	}
	for _, want := range tests {
		b := newBuilder(t, 100, 1)
		b.Data(8, 64)
		if err := add(b, want, 0); err != nil {
			t.Errorf("%s: %v", layout.Quote(want.Name), err)
			continue
		}
		ix, err := b.Finish()
		if err != nil {
			t.Errorf("%s: %v", layout.Quote(want.Name), err)
			continue
		}
		got := ix.Tensors[0]
		size, _ := want.DType.Size(want.Shape)
		if got.Raw != size || got.Stored != want.Stored || got.Offset != want.Offset || ix.Find(string(want.Name)) != 0 {
			t.Errorf("%s became %+v", layout.Quote(want.Name), got)
		}
	}
}

// What a file states for a raw tensor's Raw does not matter; Add computes it.
func TestBuilderComputesRaw(t *testing.T) {
	b := newBuilder(t, 100, 1)
	x := u8("a", 0, 16)
	x.Raw = 99
	if err := add(b, x, 0); err != nil {
		t.Fatal(err)
	}
	if raw := b.Index().Tensors[0].Raw; raw != 16 {
		t.Errorf("Raw is %d, want 16", raw)
	}
}

func TestBuilderLimits(t *testing.T) {
	lim := (&layout.Limits{Tensors: 3, NameBytes: 4, Rank: 2}).WithDefaults()
	if _, err := layout.NewBuilder(layout.APR2, 100, 4, "offset", lim).Finish(); err == nil {
		t.Error("4 tensors under a limit of 3")
	} else {
		layouttest.WantError(t, err, layout.APR2, 0, "tensor_count", layout.ErrLimit, "4 tensors", "3")
	}
	b := layout.NewBuilder(layout.APR2, 100, maxUint64, "offset", lim)
	if err := add(b, u8("1234", 0, 1), 0); !errors.Is(err, layout.ErrLimit) {
		t.Errorf("2^64-1 tensors: %v", err)
	}
	if _, err := b.Finish(); !errors.Is(err, layout.ErrLimit) {
		t.Errorf("2^64-1 tensors: %v", err)
	}
	b = layout.NewBuilder(layout.APR2, 100, 3, "offset", lim)
	if err := add(b, u8("1234", 0, 1), 0); err != nil {
		t.Error(err)
	}
	layouttest.WantError(t, add(b, u8("12345", 1, 1), 7), layout.APR2, 7, "name", layout.ErrLimit)
	x := u8("x", 1, 1)
	x.Shape = []int{1, 1, 1}
	layouttest.WantError(t, add(b, x, 8), layout.APR2, 8, "shape", layout.ErrLimit)
}

func TestBuilderSection(t *testing.T) {
	b := newBuilder(t, 100, 0)
	for _, s := range [][2]uint64{{0, 100}, {100, 0}, {50, 0}} {
		b.Section("header", 4, s[0], s[1])
	}
	if ix, err := b.Finish(); err != nil || len(ix.Sections) != 3 {
		t.Errorf("%v, %v, want 3 sections", ix, err)
	}
	for _, s := range [][2]uint64{{0, 101}, {101, 0}, {1, 100}, {maxUint64, 2}, {2, maxUint64}} {
		b := newBuilder(t, 100, 1)
		b.Section("index", 20, s[0], s[1])
		b.Section("late", 30, 101, 1)
		_, err := b.Finish()
		for _, err := range []error{add(b, u8("x", 0, 1), 0), err} {
			layouttest.WantError(t, err, layout.GGUF, 20, "index", layout.ErrTruncated, fmt.Sprintf("%d bytes at %d", s[1], s[0]))
		}
	}
}

func TestBuilderIndex(t *testing.T) {
	b := newBuilder(t, 100, 8)
	b.Index().Version, b.Index().Align = "3", 32
	for i, name := range []string{"c", "a", "b"} {
		if err := add(b, u8(name, uint64(10*i), 10), 0); err != nil {
			t.Fatal(err)
		}
	}
	ix, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if ix.Format != layout.GGUF || ix.Version != "3" || ix.Align != 32 || ix.Size != 100 || len(ix.Tensors) != 3 {
		t.Errorf("index %+v", ix)
	}
	for i, name := range []string{"c", "a", "b"} { // in the order of the file
		if string(ix.Tensors[i].Name) != name || ix.Find(name) != i {
			t.Errorf("tensor %d is %s, found at %d", i, ix.Tensors[i].Name, ix.Find(name))
		}
	}
}

// Shapes come from one arena; none may reach into another's.
func TestBuilderDims(t *testing.T) {
	for _, count := range []uint64{0, 1, 5, 3000} {
		b := newBuilder(t, 100, count)
		var shapes [][]int
		for i := range 4000 {
			n := i % 6
			if i%500 == 499 {
				n = 64
			}
			shapes = append(shapes, b.Dims(n))
			if got := shapes[i]; len(got) != n || cap(got) != n {
				t.Fatalf("Dims(%d) has length %d and capacity %d", n, len(got), cap(got))
			}
			for j := range shapes[i] {
				shapes[i][j] = i*100 + j
			}
			_ = append(shapes[i], 99, 99, 99)
		}
		for i, shape := range shapes {
			for j, dim := range shape {
				if dim != i*100+j {
					t.Fatalf("count %d: shape %d of 4000 was overwritten: %v", count, i, shape)
				}
			}
		}
	}
}

func TestBuilderDimsAllocates(t *testing.T) {
	const count = 1000
	with := func(dims int) float64 {
		return testing.AllocsPerRun(20, func() {
			b := newBuilder(t, 100, count)
			for range dims {
				b.Dims(3)
			}
		})
	}
	if n := with(count) - with(0); n != 1 {
		t.Errorf("the shapes of %d tensors take %v allocations, want 1", count, n)
	}
}

// constantName enters count tensors, all of whose names are in memory that is used again.
func constantName(t *testing.T, count int, called func(i int) string) *layout.Builder {
	t.Helper()
	b := newBuilder(t, 100, uint64(count))
	name, empty := []byte(nil), []int{0}
	for i := range count {
		name = append(name[:0], called(i)...)
		x := b.Next()
		x.Name, x.DType, x.Shape = name, layout.U8, empty
		if err := b.Add(0); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestBuilderNames: names are the index's own, and none reaches into another's.
func TestBuilderNames(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	called := func(i int) string {
		if i == 700 {
			return long
		}
		return long[:i*i%97] + strconv.Itoa(i)
	}
	tensors := constantName(t, 1000, called).Index().Tensors
	for i := range tensors {
		name := tensors[i].Name
		_ = append(name, "overwritten"...)
		if string(name) != called(i) {
			t.Fatalf("tensor %d is called %q, not %q", i, name, called(i))
		}
	}
	for i := range tensors {
		if got := string(tensors[i].Name); got != called(i) {
			t.Fatalf("the name of tensor %d was overwritten: %q", i, got)
		}
	}
}

func TestBuilderNamesAllocate(t *testing.T) {
	const count = 2000
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i) // 80 KB in all
	}
	with := func(count int) float64 {
		return testing.AllocsPerRun(20, func() { constantName(t, count, func(i int) string { return names[i] }) })
	}
	// One allocation for 32 KiB, and some for memory that is used again, here.
	if n := with(count) - with(1); n > 8 {
		t.Errorf("the names of %d tensors take %v allocations", count, n)
	}
}

func TestIndexAligned(t *testing.T) {
	tests := []struct {
		dtype         string
		offset, align uint64
		want          bool
	}{
		{"F32", 0, 0, true},
		{"F32", 4, 0, true},
		{"F32", 2, 0, false},
		{"F64", 4, 0, false},
		{"C64", 4, 0, true},
		{"U8", 3, 0, true},
		{"Q8_0", 1, 0, true},
		{"Q8_0", 32, 64, false},
		{"Q8_0", 64, 64, true},
		{"F32", 96, 64, false},
		{"F64", 4, 4, false},
		{"F64", maxUint64 - 7, 8, true},
	}
	for _, tt := range tests {
		ix := layout.Index{Align: tt.align}
		x := layout.Tensor{DType: mustDType(t, tt.dtype), Offset: tt.offset}
		if got := ix.Aligned(&x); got != tt.want {
			t.Errorf("%s at %d under an alignment of %d: %t, want %t", tt.dtype, tt.offset, tt.align, got, tt.want)
		}
	}
}

func add(b *layout.Builder, t layout.Tensor, at uint64) error {
	*b.Next() = t
	return b.Add(at)
}
