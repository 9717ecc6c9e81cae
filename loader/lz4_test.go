package loader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestCompressedEveryWay compares all ways to a compressed tensor's values with the whole of
// it expanded at once: rows and blocks of the dtype lie across borders of LZ4 blocks.
func TestCompressedEveryWay(t *testing.T) {
	for _, d := range expandable {
		kinds := kindsNamed("Open", "Open/NoMap")
		switch {
		case d == layout.Q8_0 || d == layout.F16:
			kinds = placements
		case testmode.Brief():
			continue
		}
		testCompressed(t, compressible("x", d, 41, 13, 256), kinds)
	}
}

// TestCompressedInParallel has tensors that are worth more than one core.
func TestCompressedInParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, d := range []layout.DType{layout.Q8_0, layout.Q6_K, layout.F16} {
		if testmode.Brief() && d != layout.Q8_0 {
			continue
		}
		testCompressed(t, compressible("x", d, 1201, 1024), kindsNamed("Open", "Open/NoMap"))
	}
}

func testCompressed(t *testing.T, c modeltest.Tensor, kinds []kind) {
	file := lz4Model(t, c)
	testExpand(t, c, file, kinds, func(t *testing.T, x loader.Tensor) {
		if x.ZeroCopy() || x.Encoding() != layout.LZ4 || x.RawBytes() != uint64(len(c.Data)) || x.StoredBytes() >= x.RawBytes() {
			t.Errorf("zero copy %v, %v, %d bytes of %d", x.ZeroCopy(), x.Encoding(), x.StoredBytes(), x.RawBytes())
		}
		for range 2 { // the second time what is written comes from the cache
			var written bytes.Buffer
			if n, err := x.WriteTo(&written); err != nil || n != int64(len(c.Data)) || !bytes.Equal(written.Bytes(), c.Data) {
				t.Errorf("WriteTo: %d bytes, %v", n, err)
			}
			if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) || !mmapio.IsAligned(b, 64) {
				t.Errorf("Bytes: %d bytes, %v", len(b), err)
			}
		}
		if v, err := loader.View[byte](x); err != nil || !bytes.Equal(v, c.Data) {
			t.Errorf("View: %d bytes, %v", len(v), err)
		}
		var written bytes.Buffer
		if n, err := x.WriteDecrypted(&written); err != nil || n != int64(x.StoredBytes()) || !bytes.Contains(file, written.Bytes()) {
			t.Errorf("WriteDecrypted: %d bytes, %v", n, err)
		} else if !bytes.Equal(written.Bytes(), modeltest.Blocks(t, c.Data)) {
			t.Error("WriteDecrypted: other bytes")
		}
	})
}

func TestCompressedScaled(t *testing.T) {
	c := compressible("x", layout.I16, 300, 257)
	md := quantization("x 0.1", "x -3")
	want := make([]float32, c.Elements())
	codec, err := dequant.NewCodec(c.DType, layout.Quant{Scale: 0.1, Zero: -3}, true)
	if err == nil {
		err = codec.Expand(want, c.Data, 0, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.LZ4 = modeltest.Blocks(t, c.Data)
	file := modeltest.APR2Model(t, md, modeltest.Random("before", layout.U8, 5), c)
	x := tensor(t, openBytes(t, file, nil), "x")
	for name, expand := range expansions {
		if got, err := expand(x); err != nil || !modeltest.SameFloats(got, want) {
			t.Errorf("%s: %v, or other values", name, err)
		}
	}
}

// TestCompressedCache: parts leave the cache alone, and are read from it where it has them.
func TestCompressedCache(t *testing.T) {
	c := compressible("x", layout.Q8_0, 640, 1024)
	m := openBytes(t, lz4Model(t, c), nil)
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	x, row := tensor(t, l, "x"), make([]float32, 1024)
	use := func() {
		t.Helper()
		for _, err := range []error{
			x.DequantizeRows(row, 5, 1), x.DequantizeRange(row[:7], 9), x.Dequantize(make([]float32, x.Elements())),
			x.DequantizeRange(row[:1], 1026),
			func() error { _, err := x.WriteTo(io.Discard); return err }(),
			func() (err error) {
				for _, err = range x.Values(make([]float32, 100*1024)) {
				}
				return err
			}(),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	use()
	if s := m.Stats(); s.HeapBytes != 0 || s.Expansions != 0 || s.Hits != 0 {
		t.Errorf("parts are cached: %+v", s)
	}
	if _, err := x.Bytes(); err != nil {
		t.Fatal(err)
	}
	use()
	if s := m.Stats(); s.HeapBytes != uint64(len(c.Data)) || s.Expansions != 1 || s.Hits < 6 {
		t.Errorf("%+v, want one copy of %d bytes and parts from it", s, len(c.Data))
	}
	l.Release()
	small := openBytes(t, lz4Model(t, c), &loader.Options{CacheBytes: 1000})
	l, err = small.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tensor(t, l, "x").Bytes(); err != nil || small.Stats().HeapBytes != uint64(len(c.Data)) {
		t.Errorf("not pinned: %v, %+v", err, small.Stats())
	}
	l.Release()
	if s := small.Stats(); s.HeapBytes != 0 {
		t.Errorf("kept beyond the budget: %+v", s)
	}
}

func TestCompressedTooLarge(t *testing.T) {
	c := compressible("x", layout.F16, 200, 1024)
	m := openBytes(t, lz4Model(t, c), &loader.Options{TensorBytes: int64(len(c.Data)) - 1})
	x := tensor(t, m, "x")
	if _, err := x.Bytes(); !errors.Is(err, loader.ErrTooLarge) {
		t.Errorf("Bytes: %v", err)
	}
	if _, err := x.Float32s(); !errors.Is(err, loader.ErrTooLarge) {
		t.Errorf("Float32s: %v", err)
	}
	if err := x.DequantizeRows(make([]float32, 1024), 199, 1); err != nil {
		t.Error(err)
	}
	if _, err := x.WriteTo(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestCompressedNoAllocations looks up rows that lie across blocks, other ones each time.
func TestCompressedNoAllocations(t *testing.T) {
	file := lz4Model(t, compressible("q8", layout.Q8_0, 640, 1024), compressible("f16", layout.F16, 640, 1024), compressible("i8", layout.I8, 640, 1024))
	path := modeltest.Write(t, "m", file)
	m, read := openPath(t, path, nil), openPath(t, path, &loader.Options{NoMap: true})
	if runtime.GOOS == "js" { // whose system calls allocate
		m = openBytes(t, file, nil)
		read = m
	}
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	rows := make([]float32, 70*1024)
	for name, x := range map[string]loader.Tensor{
		"q8": tensor(t, m, "q8"), "f16": tensor(t, m, "f16"), "i8": tensor(t, m, "i8"), "q8, lease": tensor(t, l, "q8"), "q8, read": tensor(t, read, "q8"),
	} {
		next := uint64(0)
		look := func() {
			n := 1 + next%70
			if err := x.DequantizeRows(rows[:n*1024], next*97%570, n); err != nil {
				t.Error(err)
			}
			next++
		}
		for range 100 {
			look()
		}
		if testmode.Races() || testmode.ChecksPointers() {
			continue // sync.Pool drops things then, or more escapes to the heap
		}
		if n := testing.AllocsPerRun(500, look); n != 0 {
			t.Errorf("%s: %v allocations a lookup", name, n)
		}
	}
}

// TestCompressedDamage has every kind of fault in the second of three blocks, and reads all
// around it.
func TestCompressedDamage(t *testing.T) {
	const rows, cols = 130, 1024 // 64 rows a block
	c := compressible("x", layout.U8, rows*16, cols/16)
	good := modeltest.Blocks(t, c.Data)
	le := binary.LittleEndian
	second := 4 + int(le.Uint32(good))
	third := second + 4 + int(le.Uint32(good[second:]))
	block := good[second+4 : third]
	swap := func(b []byte) []byte { // another second block
		out := append(le.AppendUint32(bytes.Clone(good[:second]), uint32(len(b))), b...)
		return append(out, good[third:]...)
	}
	edit := func(f func(b []byte)) []byte { b := bytes.Clone(good); f(b); return b }
	zeros := func(n int) []byte { // one literal, a match at distance 1, five literals
		n -= 6 + 4 + 15
		return append(append([]byte{0x1f, 0, 1, 0}, append(bytes.Repeat([]byte{255}, n/255), byte(n%255))...), 0x50, 0, 0, 0, 0, 0)
	}
	for _, tt := range []struct {
		name   string
		stored []byte
		block  int
		at     int
		walk   bool // found in the lengths
	}{
		{"length 0", edit(func(b []byte) { le.PutUint32(b[second:], 0) }), 1, second, true},
		{"length 1", edit(func(b []byte) { le.PutUint32(b[second:], 1) }), 1, second, true},
		{"length 2^31-1", edit(func(b []byte) { le.PutUint32(b[second:], 1<<31-1) }), 1, second, true},
		{"length 2^32-1", edit(func(b []byte) { le.PutUint32(b[second:], 1<<32-1) }), 1, second, true},
		{"length past the end", edit(func(b []byte) { le.PutUint32(b[second:], uint32(len(b)-second-3)) }), 1, second, true},
		{"longer than LZ4 needs", swap(make([]byte, lz4block.MaxStored+1)), 1, second, true},
		{"too much output", swap(zeros(lz4block.Size + 1)), 1, second, false},
		{"too little output", swap(zeros(lz4block.Size - 1)), 1, second, false},
		{"input left over", swap(append(bytes.Clone(block), 0)), 1, second, false},
		{"input cut", swap(block[:len(block)-1]), 1, second, false},
		{"match before the start", swap(append([]byte{0x1f, 0, 2}, zeros(lz4block.Size)[3:]...)), 1, second, false},
		{"match at distance 0", swap(append([]byte{0x1f, 0, 0}, zeros(lz4block.Size)[3:]...)), 1, second, false},
		{"last block left out", good[:third], 2, third, true},
		{"last block cut", good[:len(good)-1], 2, third, true},
		{"a byte behind", append(bytes.Clone(good), 0), 2, third, true},
		{"a block behind", append(bytes.Clone(good), good[:second]...), 2, third, true},
		{"first length", edit(func(b []byte) { b[3] = 0x80 }), 0, 0, true},
	} {
		c.LZ4 = tt.stored
		file := lz4Model(t, c)
		for _, p := range placements[:3] {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				x := tensor(t, p.of(t, file, nil), "x")
				read := func(name string, err error, bad bool) {
					t.Helper()
					var fe *layout.FormatError
					switch {
					case !bad && err != nil:
						t.Errorf("%s: %v", name, err)
					case bad && !errors.As(err, &fe):
						t.Errorf("%s: %v", name, err)
					case bad && (fe.Offset != x.Offset()+uint64(tt.at) || fe.Field != "lz4" || !strings.HasPrefix(fe.Reason, fmt.Sprintf("block %d of 3: ", tt.block)) ||
						!strings.Contains(err.Error(), `tensor "x"`)):
						t.Errorf("%s: %v, want block %d at %d", name, err, tt.block, x.Offset()+uint64(tt.at))
					}
				}
				for i := range 3 { // rows in one block each
					dst := make([]float32, cols)
					err := x.DequantizeRange(dst, uint64(min(i*lz4block.Size+5, rows*cols-cols)))
					read(fmt.Sprintf("rows of block %d", i), err, i == tt.block || tt.walk && i >= tt.block)
				}
				for name, read2 := range map[string]func() error{
					"Bytes":      func() error { _, err := x.Bytes(); return err },
					"Float32s":   func() error { _, err := x.Float32s(); return err },
					"Dequantize": func() error { return x.Dequantize(make([]float32, x.Elements())) },
					"WriteTo":    func() error { _, err := x.WriteTo(io.Discard); return err },
					"Values": func() (err error) {
						for _, err = range x.Values(make([]float32, 7*cols)) {
						}
						return err
					},
				} {
					read(name, read2(), true)
				}
				_, err := x.WriteDecrypted(io.Discard)
				read("WriteDecrypted", err, tt.walk)
			})
		}
	}
}

// TestCompressedFlips sets each byte of a tensor to others: an error or some values, and the
// same ones by all ways.
func TestCompressedFlips(t *testing.T) {
	c := modeltest.Tensor{Name: "x", DType: layout.U8, Shape: []int{300}, Data: bytes.Repeat([]byte("abcabcabd0"), 30)}
	good := modeltest.Blocks(t, c.Data)
	for i := range good {
		for _, v := range []byte{0, 1, 15, 16, 127, 128, 240, 255} {
			c.LZ4 = bytes.Clone(good)
			c.LZ4[i] ^= v
			x := tensor(t, openBytes(t, lz4Model(t, c), nil), "x")
			all, err := x.Bytes()
			dst := make([]float32, 300)
			if err2 := x.Dequantize(dst); (err == nil) != (err2 == nil) {
				t.Errorf("byte %d ^ %d: %v, but %v", i, v, err, err2)
			}
			var fe *layout.FormatError
			if err != nil && !errors.As(err, &fe) {
				t.Errorf("byte %d ^ %d: %v", i, v, err)
			}
			for j, b := range all {
				if dst[j] != float32(b) {
					t.Fatalf("byte %d ^ %d: element %d is %v and %v", i, v, j, b, dst[j])
				}
			}
		}
	}
}

// counter counts what is read, and how often.
type counter struct {
	r     io.ReaderAt
	bytes atomic.Int64
	reads atomic.Int64
}

func (c *counter) ReadAt(b []byte, off int64) (int, error) {
	c.bytes.Add(int64(len(b)))
	c.reads.Add(1)
	return c.r.ReadAt(b, off)
}

func (c *counter) reset() { c.bytes.Store(0); c.reads.Store(0) }

// counted opens a file whose tensors are read from a counter.
func counted(t *testing.T, file []byte, opts *loader.Options) (*loader.Model, *counter) {
	t.Helper()
	m := openBytes(t, file, opts)
	c := &counter{r: bytes.NewReader(file)}
	loader.ReadFrom(m, c, int64(len(file)))
	return m, c
}

// TestCompressedReads: rows cost their blocks and, once, the lengths before; a whole tensor
// costs its bytes, and few requests.
func TestCompressedReads(t *testing.T) {
	const rows, cols, blocks = 6400, 1024, 100
	c := compressible("x", layout.U8, rows, cols)
	file := lz4Model(t, c)
	stored := modeltest.Blocks(t, c.Data)
	var sizes [blocks]int64
	begins := int64(0) // of block 90
	for i, at := 0, 0; i < blocks; i++ {
		if i == 90 {
			begins = int64(at)
		}
		sizes[i] = int64(binary.LittleEndian.Uint32(stored[at:])) + 4
		at += int(sizes[i])
	}
	all := int64(len(stored))
	dst := make([]float32, rows*cols)
	row := func(x loader.Tensor, first, n uint64) func() error {
		return func() error { return x.DequantizeRows(dst[:n*cols], first, n) }
	}
	m, r := counted(t, file, nil)
	x := tensor(t, m, "x")
	for _, step := range []struct {
		name         string
		do           func() error
		bytes, reads int64
	}{
		{"the first block", row(x, 3, 1), 4 + sizes[0], 2},
		{"block 50", row(x, 50*64, 1), 50*4 + sizes[50], 51},
		{"another", row(x, 20*64, 1), sizes[20], 1},
		{"two blocks", row(x, 30*64+60, 8), sizes[30] + sizes[31], 1},
		{"all the rest", row(x, 90*64, 640), 39*4 + all - begins, 40},
		{"all", row(x, 0, rows), all, 1},
		{"Bytes", func() error { _, err := x.Bytes(); return err }, all, 1},
		{"rows of what is cached", row(x, 70*64, 64), 0, 0},
	} {
		r.reset()
		if err := step.do(); err != nil || r.bytes.Load() != step.bytes || r.reads.Load() != step.reads {
			t.Errorf("%s: %d bytes in %d reads, want %d in %d; %v", step.name, r.bytes.Load(), r.reads.Load(), step.bytes, step.reads, err)
		}
	}
	for name, read := range map[string]func(x loader.Tensor) error{
		"Bytes":          func(x loader.Tensor) error { _, err := x.Bytes(); return err },
		"Dequantize":     func(x loader.Tensor) error { return x.Dequantize(dst) },
		"WriteTo":        func(x loader.Tensor) error { _, err := x.WriteTo(io.Discard); return err },
		"WriteDecrypted": func(x loader.Tensor) error { _, err := x.WriteDecrypted(io.Discard); return err },
	} {
		m, r := counted(t, file, nil)
		if err := read(tensor(t, m, "x")); err != nil || r.bytes.Load() != all || r.reads.Load() != 1 {
			t.Errorf("%s of a tensor that nobody has touched: %d bytes in %d reads, of %d; %v", name, r.bytes.Load(), r.reads.Load(), all, err)
		}
	}
	// Memory for more values than mmapio.Trusted is taken as they arrive, so that blocks whose lengths are unknown are
	// asked for by an estimate.
	m, r = counted(t, file, nil)
	if _, err := tensor(t, m, "x").Float32s(); err != nil || r.bytes.Load() > all*101/100 || r.reads.Load() > 3 {
		t.Errorf("Float32s of a tensor that nobody has touched: %d bytes in %d reads, of %d; %v", r.bytes.Load(), r.reads.Load(), all, err)
	}
}

// TestCompressedRowsOfOneBlock: whoever reads rows of a block one after the other has it read
// and expanded once. The block is in a pool, which the garbage collector empties, and the race
// detector at random, so that it may take a few tries.
func TestCompressedRowsOfOneBlock(t *testing.T) {
	const cols = 1024
	m, r := counted(t, lz4Model(t, compressible("x", layout.U8, 640, cols)), nil)
	x, dst := tensor(t, m, "x"), make([]float32, cols)
	for range 50 {
		if err := x.DequantizeRows(dst, 5*64, 1); err != nil {
			t.Fatal(err)
		}
		r.reset()
		if err := x.DequantizeRows(dst, 5*64+63, 1); err != nil {
			t.Fatal(err)
		}
		if r.reads.Load() == 0 {
			return
		}
	}
	t.Error("every row has the block read again")
}

// TestCompressedSegments has a tensor that a file that is not mapped yields in several reads.
func TestCompressedSegments(t *testing.T) {
	c := modeltest.Random("x", layout.Q8_0, 970, 32*1024) // noise: as large compressed
	if len(c.Data) < 2*loader.Segment {
		t.Fatalf("%d bytes", len(c.Data))
	}
	want := make([]float32, c.Elements())
	if err := dequant.Expand(c.DType, want, c.Data); err != nil {
		t.Fatal(err)
	}
	c.LZ4 = modeltest.LiteralBlocks(c.Data)
	file := lz4Model(t, c)
	for name, read := range map[string]func(x loader.Tensor) bool{
		"Bytes": func(x loader.Tensor) bool { b, err := x.Bytes(); return err == nil && bytes.Equal(b, c.Data) },
		"Dequantize": func(x loader.Tensor) bool {
			dst := make([]float32, len(want))
			return x.Dequantize(dst) == nil && modeltest.SameFloats(dst, want)
		},
		"WriteDecrypted": func(x loader.Tensor) bool {
			var out bytes.Buffer
			_, err := x.WriteDecrypted(&out)
			return err == nil && bytes.Contains(file, out.Bytes()) && uint64(out.Len()) == x.StoredBytes()
		},
		"WriteTo": func(x loader.Tensor) bool {
			var out bytes.Buffer
			_, err := x.WriteTo(&out)
			return err == nil && bytes.Equal(out.Bytes(), c.Data)
		},
	} {
		if testmode.Brief() && name != "Dequantize" {
			continue
		}
		m, r := counted(t, file, nil)
		x := tensor(t, m, "x")
		if !read(x) {
			t.Errorf("%s: other bytes", name)
		}
		if n, most := r.bytes.Load(), int64(x.StoredBytes()*101/100); n > most {
			t.Errorf("%s: %d bytes read of %d", name, n, x.StoredBytes())
		}
		if !read(x) {
			t.Errorf("%s: other bytes, the second time", name)
		}
	}
}

// TestCompressedConcurrently has many goroutines read one tensor by all ways, with a cache
// that holds it and one that does not. Its lengths are read once.
func TestCompressedConcurrently(t *testing.T) {
	c := compressible("x", layout.Q8_0, 640, 1024)
	want := make([]float32, c.Elements())
	if err := dequant.Expand(c.DType, want, c.Data); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*loader.Options{nil, {CacheBytes: -1}} {
		m, r := counted(t, lz4Model(t, c), opts)
		x := tensor(t, m, "x")
		var wg sync.WaitGroup
		for g := range uint64(6) {
			wg.Go(func() {
				row := make([]float32, 3*1024)
				for i := range uint64(60) {
					first := (i*31 + g*7) % 637
					if err := x.DequantizeRows(row, first, 3); err != nil || !modeltest.SameFloats(row, want[first*1024:][:len(row)]) {
						t.Errorf("rows from %d on: %v, or other values", first, err)
					}
					if i%20 == g {
						if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) {
							t.Errorf("Bytes: %v, or others", err)
						}
					}
				}
			})
		}
		wg.Wait()
		if opts != nil {
			r.reset()
			if err := x.DequantizeRows(make([]float32, 1024), 639, 1); err != nil || r.reads.Load() > 1 {
				t.Errorf("%d reads for a row when all lengths are known; %v", r.reads.Load(), err)
			}
		}
	}
}

// TestCompressedEmpty has no elements, as APR1 may store them.
func TestCompressedEmpty(t *testing.T) {
	file := lz4Model(t, modeltest.Tensor{Name: "x", DType: layout.F32, Shape: []int{0, 3}, Data: nil})
	x := tensor(t, openBytes(t, file, nil), "x")
	if b, err := x.Bytes(); len(b) != 0 || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if v, err := x.Float32s(); len(v) != 0 || err != nil {
		t.Errorf("%d values, %v", len(v), err)
	}
}
