package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// checkPromises: the header comes first, one section behind the other, and tensors come
// behind it, where the alignment has them.
func checkPromises(t testing.TB, f *File, _ layout.Bytes, got *layouttest.Answers) {
	t.Helper()
	if got.Checksums != nil {
		t.Errorf("checksums %v", got.Checksums)
	}
	ix := f.Index()
	if a := ix.Align; a == 0 || a&(a-1) != 0 {
		t.Errorf("alignment %d", a)
	}
	header := uint64(0)
	for _, s := range ix.Sections {
		if s.Offset != header {
			t.Errorf("section %s at %d, not %d", s.Name, s.Offset, header)
		}
		header += s.Size
	}
	for i, x := range ix.Tensors {
		if x.Encoding != layout.Raw && !(x.Encoding == layout.Swapped && len(ix.Flags) == 1) || x.Alias || x.Offset%ix.Align != 0 || x.Offset < header {
			t.Errorf("tensor %d behind a header of %d bytes: %+v", i, header, x)
		}
	}
}

func TestTruncated(t *testing.T) {
	for _, name := range []string{"llama", "v1", "v2", "v3", "values", "shapes", "align256"} {
		b := format.Read(t, name)
		end := uint64(0)
		for _, x := range format.MustDecode(t, b).Index().Tensors {
			if x.Stored > 0 {
				end = max(end, x.Offset+x.Stored)
			}
		}
		for n, cut := range layouttest.Prefixes(b) {
			if f := format.Use(t, cut); f != nil && uint64(n) < end {
				t.Errorf("%s: the first %d of %d bytes are a file", name, n, len(b))
			}
		}
	}
}

func TestCorrupted(t *testing.T) {
	b, _ := small()
	for at, damaged := range layouttest.Flipped(b) {
		if at >= len(b)-160 { // where the data begins
			break
		}
		format.Use(t, damaged)
	}
}

// TestExtremes sets every count, length, type, dimension and offset to what is likeliest to
// overflow, each alone and every two together.
func TestExtremes(t *testing.T) {
	extremes := append(layouttest.Extremes(8), 1<<61+1, math.MaxUint64-7)
	b, fields := small()
	if f := format.Use(t, b); f == nil || len(fields) < 40 {
		t.Fatalf("%d fields", len(fields))
	}
	put := func(f field, v uint64) {
		if f.size == 4 {
			binary.LittleEndian.PutUint32(b[f.at:], uint32(v))
		} else {
			binary.LittleEndian.PutUint64(b[f.at:], v)
		}
	}
	clean := bytes.Clone(b)
	for i, f := range fields {
		for _, v := range extremes {
			put(f, v)
			format.Use(t, b)
			for _, g := range fields[i+1:] {
				put(g, v)
				format.Use(t, b)
				copy(b[g.at:], clean[g.at:g.at+g.size])
			}
		}
		copy(b[f.at:], clean[f.at:f.at+f.size])
	}
}

// TestAllocations gives the decoder files made to cost memory, and small ones that claim to
// be large. None may cost more than a small multiple of its own size.
func TestAllocations(t *testing.T) {
	const n = 50_000
	files := map[string][]byte{}
	var a assembler
	a.header(0, n)
	for i := range n {
		a.key(fmt.Sprintf("%04x", i), TypeUint8)
		a.u8(0)
	}
	files["keys"] = a.b
	a = assembler{}
	a.header(n, 0)
	for i := range n {
		a.tensor(fmt.Sprintf("%04x", i), 0, 0, 0)
	}
	files["tensors"] = a.data(0)
	a = assembler{}
	a.header(n, 0)
	for i := range n {
		a.tensor(fmt.Sprintf("%04x", i), 0, 0)
	}
	files["overlapping scalars"] = a.data(4)
	a = assembler{}
	a.header(0, 1)
	a.strings("empty", make([]string, n)...)
	files["empty strings"] = a.b
	files["no tensors where many are claimed"] = append([]byte("GGUF\x03\x00\x00\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), make([]byte, 24<<16)...)
	a = assembler{}
	a.header(0, 1)
	a.array("arrays", TypeArray, n)
	for i := range n {
		a.u32(uint32([]Type{TypeUint8, TypeArray}[i%2]))
		a.u64(0)
	}
	files["arrays of nothing"] = a.b
	a = assembler{}
	a.header(n, n)
	for i := range n {
		a.array(fmt.Sprintf(keyOriginal+"%04x", i), TypeInt32, 1)
		a.u32(1)
	}
	for i := range n {
		a.tensor(fmt.Sprintf("%04x", i), 0, 0, 0)
	}
	files["shapes"] = a.data(0)
	b, fields := small()
	for _, f := range fields {
		c := bytes.Clone(b)
		copy(c[f.at:], "\xff\xff\xff\x00")
		files[fmt.Sprintf("field at %d", f.at)] = c
	}
	for name, b := range files {
		bound := layouttest.Bound{PerByte: 12, Fixed: 1 << 13}
		bound.Check(t, name, len(b), func() { _, _ = Decode(layout.Bytes(b), nil) })
		if f := format.Use(t, b); f != nil {
			bound.Check(t, name+": metadata", len(b), func() { _, _ = f.Metadata(layout.Bytes(b)) })
		}
	}
}

// TestReads makes sure that opening a remote file reads its header once, in ever larger
// pieces, that it reads no tensor but what lies in the last of these, and no numbers of a
// vocabulary; and that asking for a value reads that alone.
func TestReads(t *testing.T) {
	const numbers = 1 << 20
	words := slices.Repeat([]string{"several", "tokens", "of a", "vocabulary"}, 50_000)
	var a assembler
	a.header(300, 4)
	a.strings("tokens", words...)
	a.array("scores", TypeFloat64, numbers)
	a.b = append(a.b, make([]byte, 8*numbers)...)
	a.key("last", TypeUint16)
	a.u16(513)
	a.strings("merges", words...)
	for i := range 300 {
		a.tensor(fmt.Sprintf("blk.%d.weight", i), 0, uint64(i)*4096, 1024)
	}
	in := &layouttest.Recorder{Input: layout.Bytes(a.data(300 * 4096))}
	f := format.MustDecode(t, in)
	header := f.data
	for _, s := range in.Reads {
		if s.Offset >= header {
			t.Errorf("read %d bytes at %d, behind the header of %d", s.Size, s.Offset, header)
		}
	}
	if limit := header - 8*numbers + 1<<20 + 1<<16; in.Total() > limit {
		t.Errorf("read %d bytes in %d pieces of a header of %d, of which %d are numbers", in.Total(), len(in.Reads), header, 8*numbers)
	}
	if len(in.Reads) > 40 {
		t.Errorf("%d reads", len(in.Reads))
	}
	in.Reads = nil
	if v, ok, err := f.Get(in, "last"); v != uint16(513) || !ok || err != nil {
		t.Errorf("Get: %v, %t, %v", v, ok, err)
	}
	if len(in.Reads) != 1 || in.Total() != 2 {
		t.Errorf("Get of a number read %v", in.Reads)
	}
	small := &layouttest.Recorder{Input: format.Read(t, "llama")}
	if f := format.MustDecode(t, small); len(small.Reads) != 1 || small.Total() > 4096 {
		t.Errorf("a header of %d bytes: read %v", f.data, small.Reads)
	}
}

func TestLimits(t *testing.T) {
	b := format.Read(t, "llama")
	header := format.MustDecode(t, b).data
	for name, c := range map[string]struct {
		lim  layout.Limits
		fine bool
	}{
		"header":     {layout.Limits{HeaderBytes: header}, true},
		"metadata":   {layout.Limits{HeaderBytes: header / 2}, false},
		"infos":      {layout.Limits{HeaderBytes: header - 60}, false},
		"tensors":    {layout.Limits{Tensors: 6}, true},
		"tensors 5":  {layout.Limits{Tensors: 5}, false},
		"rank":       {layout.Limits{Rank: 1}, false},
		"name bytes": {layout.Limits{NameBytes: 5}, false},
	} {
		_, err := Decode(b, &c.lim)
		if c.fine != (err == nil) || err != nil && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongNames: a name may have what Limits.NameBytes says, in bytes.
func TestLongNames(t *testing.T) {
	for _, tt := range []struct {
		size, limit uint64
		fine        bool
	}{{64, 0, true}, {65, 0, true}, {65_535, 0, true}, {65_536, 0, false}, {100, 100, true}, {101, 100, false}, {70_000, 80_000, true}} {
		var a assembler
		a.header(1, 0)
		a.tensor(strings.Repeat("n", int(tt.size)), 0, 0, 2)
		_, err := Decode(layout.Bytes(a.data(8)), &layout.Limits{NameBytes: tt.limit})
		if tt.fine != (err == nil) || err != nil && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%d bytes of %d: %v", tt.size, tt.limit, err)
		}
	}
}

// TestNested: arrays of arrays come out as they were put in, whatever the file claims about their lengths afterwards.
func TestNested(t *testing.T) {
	in := format.Read(t, "large")
	f := format.MustDecode(t, in)
	v, ok, err := f.Get(in, "arrays.2")
	if want := any([]any{[]any{[]bool{true}, []bool{false, true}}}); !ok || err != nil || !reflect.DeepEqual(v, want) {
		t.Fatalf("%v, %t, %v; want %v", v, ok, err, want)
	}
	off, _ := f.keys.value(f.keys.find("arrays.0"))
	for _, at := range []uint64{4, 12, 16} { // lengths and a type
		for _, b := range []byte{0, 1, 8, 9, 99, 0xff} {
			changed := layout.Bytes(bytes.Clone(in))
			changed[off+at] = b
			format.Again(t, f, changed)
			format.Use(t, changed)
		}
	}
}

// TestManyNested: arrays in arrays, of 12 bytes each, take up to 16 times their bytes as values.
func TestManyNested(t *testing.T) {
	const n = 80_000
	var a assembler
	a.header(0, 1)
	a.array("arrays", TypeArray, n)
	for i := range n {
		a.u32(uint32([]Type{TypeUint8, TypeArray}[i%2]))
		a.u64(0)
	}
	var f *File
	layouttest.Bound{Fixed: 8 << 10}.Check(t, "stepping over arrays in arrays", len(a.b), func() { f = format.MustDecode(t, layout.Bytes(a.b)) })
	layouttest.Bound{PerByte: 16}.Check(t, "arrays in arrays", len(a.b), func() {
		if md, err := f.Metadata(layout.Bytes(a.b)); err != nil || len(md) != 1 {
			t.Error(err)
		}
	})
}

// TestOriginalShapes: a shape in the metadata counts if it fits, and says nothing otherwise.
func TestOriginalShapes(t *testing.T) {
	for _, tt := range []struct {
		typ     Type
		dims    []uint64
		want    []int
		warning bool
	}{
		{TypeInt32, []uint64{2, 1, 3}, []int{2, 1, 3}, false},
		{TypeInt64, []uint64{1, 1, 1, 1, 6}, []int{1, 1, 1, 1, 6}, false},
		{TypeInt32, []uint64{6}, []int{6}, false},
		{TypeInt32, []uint64{2, 4}, []int{2, 3}, true},
		{TypeInt32, []uint64{1<<32 - 2, 1<<32 - 3}, []int{2, 3}, false}, // negative
		{TypeInt64, []uint64{1 << 63, 0}, []int{2, 3}, false},
		{TypeInt64, []uint64{1 << 62, 8, 0, 1}, []int{2, 3}, true},
		{TypeFloat32, []uint64{2, 3}, []int{2, 3}, false},
		{TypeInt32, slices.Repeat([]uint64{1}, 65), []int{2, 3}, false},
	} {
		var a assembler
		a.header(1, 1)
		a.array(keyOriginal+"x", tt.typ, len(tt.dims))
		for _, n := range tt.dims {
			if types[tt.typ].size == 4 {
				a.b = binary.LittleEndian.AppendUint32(a.b, uint32(n))
			} else {
				a.b = binary.LittleEndian.AppendUint64(a.b, n)
			}
		}
		a.tensor("x", 0, 0, 3, 2)
		in := layout.Bytes(a.data(24))
		f := format.MustDecode(t, in)
		found := f.Audit(in)
		if got := f.Index().Tensors[0].Shape; !slices.Equal(got, tt.want) || len(found) > 0 != tt.warning || tt.warning && !strings.Contains(found[0].Error(), `"comfy.gguf.orig_shape.x" says`) {
			t.Errorf("%v %v: %v, want %v; %v", tt.typ, tt.dims, got, tt.want, found)
		}
	}
}

// live is an Input that measures how much memory is in use when the last bytes of the file are read.
type live struct {
	layout.Bytes
	heap uint64
}

func (l *live) Slice(off, n uint64) ([]byte, error) {
	if off+n == l.Size() {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		l.heap = m.HeapAlloc
	}
	return l.Bytes.Slice(off, n)
}

// TestNoShapes: values that should be shapes and are none take no memory.
func TestNoShapes(t *testing.T) {
	testmode.Sequential(t)
	const n = 20_000
	var a assembler
	a.header(0, n)
	for i := range n {
		a.array(fmt.Sprint(keyOriginal, i), TypeString, 60)
		a.b = append(a.b, make([]byte, 8*60)...)
	}
	in := &live{Bytes: a.b}
	in.Slice(0, in.Size())
	before := in.heap
	format.MustDecode(t, in)
	if limit := uint64(len(a.b) / 2); in.heap > before+limit {
		t.Errorf("%d bytes take %d of memory, more than %d", len(a.b), in.heap-before, limit)
	}
}

// TestReadsOnce: values that opening needs are not read again, and metadata is read at once. Each read of a remote file may be a request.
func TestReadsOnce(t *testing.T) {
	var a assembler
	a.header(1, 5)
	a.array(keyOriginal+"x", TypeInt32, 1)
	a.b = binary.LittleEndian.AppendUint32(a.b, 6)
	a.key(keyAlignment, TypeUint32)
	a.b = binary.LittleEndian.AppendUint32(a.b, 32)
	a.key(keySplitNo, TypeUint16)
	a.u16(0)
	a.key(keySplitCount, TypeUint16)
	a.u16(2)
	a.key(keySplitTensors, TypeInt32)
	a.b = binary.LittleEndian.AppendUint32(a.b, 9)
	a.tensor("x", 0, 0, 3, 2)
	in := &layouttest.Recorder{Input: layout.Bytes(a.data(24))}
	f := format.MustDecode(t, in)
	if shape := f.Index().Tensors[0].Shape; len(in.Reads) != 1 || !slices.Equal(shape, []int{6}) {
		t.Errorf("shape %v, reads %v", shape, in.Reads)
	}
	in.Reads = nil
	if md, err := f.Metadata(in); err != nil || len(md) != 5 || len(in.Reads) != 1 {
		t.Errorf("metadata %v, %v, reads %v", md, err, in.Reads)
	}
}

func TestUnreadable(t *testing.T) {
	b := format.Read(t, "vocabulary")
	for _, from := range []uint64{0, 4096, 20_000} {
		_, err := Decode(layouttest.Failing{Bytes: b, From: from}, nil)
		if format.WellFormed(t, b, err); !errors.Is(err, iofault.ErrDisk) {
			t.Errorf("from %d on: %v", from, err)
		}
	}
	f := format.MustDecode(t, b)
	in := layouttest.Failing{Bytes: b, From: 100}
	if _, err := f.Metadata(in); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Metadata: %v", err)
	}
	if _, ok, err := f.Get(in, "tokenizer.ggml.tokens"); ok || !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Get: %v", err)
	}
	if _, err := f.Summary(in); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Summary: %v", err)
	}
	if found := f.Audit(in); len(found) == 0 || found[0].Warning {
		t.Errorf("Audit: %v", found)
	}
}

// TestChanged reads values of a file that is another by now.
func TestChanged(t *testing.T) {
	b, _ := small()
	f := format.MustDecode(t, layout.Bytes(b))
	for at, changed := range layouttest.Overwritten(b, 1, 0, 1, 2, 4, 8, 9, 0x7f, 0xff) {
		if at >= len(b)-160 { // where the data begins
			break
		}
		format.Again(t, f, changed)
	}
	_, err := f.Metadata(layout.Bytes(b[:100]))
	format.CheckError(t, err, layout.ErrTruncated, "metadata_kv", 24, "cannot be read")
}

func FuzzDecode(f *testing.F) {
	format.Seed(f, 1<<14)
	b, _ := small()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { format.Use(t, b) })
}

// TestManyDuplicates: to find that a key or a name is there twice takes no longer than to
// read the file, whatever the file.
func TestManyDuplicates(t *testing.T) {
	testmode.Sequential(t)
	const n = 200_000
	var a assembler
	a.header(0, n)
	for i := range n {
		a.key(fmt.Sprint("key ", i%(n-1)), TypeUint8)
		a.u8(0)
	}
	_, err := Decode(layout.Bytes(a.b), nil)
	if !errors.Is(err, layout.ErrDuplicate) {
		t.Error(err)
	}
}

// TestForeignTypes: types that ggml has not are refused by number, and by the name of the fork that has them.
func TestForeignTypes(t *testing.T) {
	for id, want := range map[uint32]string{
		144: "144 is IQ4_KS of ik_llama.cpp", 142: "142 is PQ2_0 of PrismML's llama.cpp", 43: "43 is claimed by several forks",
		31: "Q4_0_4_4, which ggml has removed", 136: "136 is no type of ggml", math.MaxUint32: "4294967295 is no type of ggml",
	} {
		var a assembler
		a.header(1, 0)
		a.tensor("blk.0.w", id, 0, 256)
		_, err := Decode(layout.Bytes(a.data(256)), nil)
		if !errors.Is(err, layout.ErrUnsupported) || !strings.Contains(err.Error(), `tensor "blk.0.w": `+want) {
			t.Errorf("%d: %v", id, err)
		}
	}
}
