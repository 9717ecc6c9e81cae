package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// decodeAny decodes what may be damaged: it must be refused in good form, or keep all that
// an index and the methods of a file promise.
func decodeAny(t testing.TB, b []byte) *File {
	t.Helper()
	in := layout.Bytes(b)
	f, err := Decode(in, nil)
	if err != nil {
		wellFormed(t, b, err)
		return nil
	}
	checkIndex(t, f, b)
	md, err := f.Metadata(in)
	if err != nil {
		wellFormed(t, b, err)
	} else if _, err := md.MarshalJSON(); err != nil {
		t.Error(err)
	}
	if _, err := f.Summary(in); err != nil {
		wellFormed(t, b, err)
	}
	if sums, err := f.Checksums(in); sums != nil || err != nil {
		t.Errorf("checksums %v, %v", sums, err)
	}
	for _, x := range f.Audit(in) {
		wellFormed(t, b, x.FormatError)
	}
	return f
}

func wellFormed(t testing.TB, b []byte, err error) {
	t.Helper()
	e, ok := errors.AsType[*layout.FormatError](err)
	if !ok || e.Format != layout.GGUF || e.Offset > uint64(len(b)) || e.Field == "" || e.Reason == "" || e.Err == nil {
		t.Errorf("error %#v", err)
	}
}

// checkIndex compares everything with everything, without a line of layout's checks.
func checkIndex(t testing.TB, f *File, b []byte) {
	t.Helper()
	ix := f.Index()
	if a := ix.Align; a < 8 || a > 4096 || a&(a-1) != 0 {
		t.Errorf("alignment %d", a)
	}
	type span struct{ off, end uint64 }
	var spans []span
	header := uint64(0)
	for _, s := range ix.Sections {
		if s.Offset != header {
			t.Errorf("section %s at %d, not %d", s.Name, s.Offset, header)
		}
		header += s.Size
	}
	for i, x := range ix.Tensors {
		if ix.Find(string(x.Name)) != i {
			t.Errorf("tensor %d: %q is not found", i, x.Name)
		}
		n := uint64(1)
		for _, d := range x.Shape {
			n *= d
		}
		if n/uint64(x.DType.BlockElems())*uint64(x.DType.BlockBytes()) != x.Stored || x.Raw != x.Stored || len(x.Shape) > 4 {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Offset%8 != 0 || x.Offset < header || x.Offset > uint64(len(b)) || x.Stored > uint64(len(b))-x.Offset {
			t.Errorf("tensor %d: %d bytes at %d of %d", i, x.Stored, x.Offset, len(b))
		}
		if x.Stored > 0 {
			spans = append(spans, span{x.Offset, x.Offset + x.Stored})
		}
	}
	slices.SortFunc(spans, func(x, y span) int { return int(int64(x.off - y.off)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].off < spans[i-1].end {
			t.Errorf("overlap: %v, %v", spans[i-1], spans[i])
		}
	}
}

func TestTruncated(t *testing.T) {
	for _, name := range []string{"llama", "v1", "v2", "v3", "values", "shapes", "align256"} {
		b := read(t, name+".gguf")
		end := uint64(0)
		for _, x := range mustDecode(t, b).Index().Tensors {
			if x.Stored > 0 {
				end = max(end, x.Offset+x.Stored)
			}
		}
		for n := range b {
			if f := decodeAny(t, b[:n:n]); f != nil && uint64(n) < end {
				t.Errorf("%s: the first %d of %d bytes are a file", name, n, len(b))
			}
		}
	}
}

func TestCorrupted(t *testing.T) {
	b, _ := small()
	for at := range len(b) - 160 {
		was := b[at]
		for c := range 256 {
			b[at] = byte(c)
			decodeAny(t, b)
		}
		b[at] = was
	}
}

var extremes = []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<61 + 1, 1<<63 - 1, 1 << 63, math.MaxUint64 - 7, math.MaxUint64}

// TestExtremes sets every count, length, type, dimension and offset to what is likeliest to
// overflow, each alone and every two together.
func TestExtremes(t *testing.T) {
	b, fields := small()
	if f := decodeAny(t, b); f == nil || len(fields) < 40 {
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
			decodeAny(t, b)
			for _, g := range fields[i+1:] {
				put(g, v)
				decodeAny(t, b)
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
	b, fields := small()
	for _, f := range fields {
		c := bytes.Clone(b)
		copy(c[f.at:], "\xff\xff\xff\x00")
		files[fmt.Sprintf("field at %d", f.at)] = c
	}
	for name, b := range files {
		cost := allocated(func() { _, _ = Decode(layout.Bytes(b), nil) })
		if limit := 12*uint64(len(b)) + 1<<13; cost > limit {
			t.Errorf("%s: a file of %d bytes took %d, more than %d", name, len(b), cost, limit)
		}
		if f := decodeAny(t, b); f != nil {
			cost = allocated(func() { _, _ = f.Metadata(layout.Bytes(b)) })
			if limit := 12*uint64(len(b)) + 1<<13; cost > limit {
				t.Errorf("%s: the metadata of %d bytes took %d, more than %d", name, len(b), cost, limit)
			}
		}
	}
}

// allocated is the number of bytes of heap that f takes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// recorder is an Input that hands out copies, as one of a remote file does, and notes them.
type recorder struct {
	layout.Bytes
	reads []layout.Section
}

func (r *recorder) Slice(off, n uint64) ([]byte, error) {
	r.reads = append(r.reads, layout.Section{Offset: off, Size: n})
	b, err := r.Bytes.Slice(off, n)
	return bytes.Clone(b), err
}

func (r *recorder) total() (n uint64) {
	for _, s := range r.reads {
		n += s.Size
	}
	return n
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
	in := &recorder{Bytes: a.data(300 * 4096)}
	f := mustDecode(t, in)
	header := f.data
	for _, s := range in.reads {
		if s.Offset >= header {
			t.Errorf("read %d bytes at %d, behind the header of %d", s.Size, s.Offset, header)
		}
	}
	if limit := header - 8*numbers + 1<<20 + 1<<16; in.total() > limit {
		t.Errorf("read %d bytes in %d pieces of a header of %d, of which %d are numbers", in.total(), len(in.reads), header, 8*numbers)
	}
	if len(in.reads) > 40 {
		t.Errorf("%d reads", len(in.reads))
	}
	in.reads = nil
	if v, ok, err := f.Get(in, "last"); v != uint16(513) || !ok || err != nil {
		t.Errorf("Get: %v, %t, %v", v, ok, err)
	}
	if len(in.reads) != 1 || in.total() != 2 {
		t.Errorf("Get of a number read %v", in.reads)
	}
	small := &recorder{Bytes: read(t, "llama.gguf")}
	if f := mustDecode(t, small); len(small.reads) != 1 || small.total() > 4096 {
		t.Errorf("a header of %d bytes: read %v", f.data, small.reads)
	}
}

func TestLimits(t *testing.T) {
	b := read(t, "llama.gguf")
	header := mustDecode(t, b).data
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

// failing cannot be read from some offset on.
type failing struct {
	layout.Bytes
	from uint64
}

var errDisk = errors.New("disk on fire")

func (f failing) Slice(off, n uint64) ([]byte, error) {
	if off+n > f.from {
		return nil, errDisk
	}
	return f.Bytes.Slice(off, n)
}

func TestUnreadable(t *testing.T) {
	b := read(t, "vocabulary.gguf")
	for _, from := range []uint64{0, 4096, 20_000} {
		_, err := Decode(failing{b, from}, nil)
		if wellFormed(t, b, err); !errors.Is(err, errDisk) {
			t.Errorf("from %d on: %v", from, err)
		}
	}
	f := mustDecode(t, b)
	in := failing{b, 100}
	if _, err := f.Metadata(in); !errors.Is(err, errDisk) {
		t.Errorf("Metadata: %v", err)
	}
	if _, ok, err := f.Get(in, "tokenizer.ggml.tokens"); ok || !errors.Is(err, errDisk) {
		t.Errorf("Get: %v", err)
	}
	if _, err := f.Summary(in); !errors.Is(err, errDisk) {
		t.Errorf("Summary: %v", err)
	}
	if found := f.Audit(in); len(found) == 0 || found[0].Warning {
		t.Errorf("Audit: %v", found)
	}
}

// TestChanged reads values of a file that is another by now.
func TestChanged(t *testing.T) {
	b, _ := small()
	f := mustDecode(t, layout.Bytes(b))
	for at := range len(b) - 160 {
		for _, c := range []byte{0, 1, 2, 4, 8, 9, 0x7f, 0xff} {
			was := b[at]
			b[at] = c
			md, err := f.Metadata(layout.Bytes(b))
			if err != nil {
				wellFormed(t, b, err)
			} else if _, err := md.MarshalJSON(); err != nil {
				t.Error(err)
			}
			f.Audit(layout.Bytes(b))
			b[at] = was
		}
	}
	if _, err := f.Metadata(layout.Bytes(b[:100])); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("cut: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob(filepath.Join(testdata, "*.gguf"))
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		if b := read(f, filepath.Base(name)); len(b) < 1<<14 {
			f.Add([]byte(b))
		}
	}
	b, _ := small()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { decodeAny(t, b) })
}

// TestManyDuplicates: to find that a key or a name is there twice takes no longer than to
// read the file, whatever the file.
func TestManyDuplicates(t *testing.T) {
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
