package apr2

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// checkIndex makes sure of what an Index promises by comparing everything with
// everything, without a line of layout's checks.
func checkIndex(t testing.TB, f layout.File, data []byte) {
	t.Helper()
	size := uint64(len(data))
	ix := f.Index()
	leastRank, dataAt, dataEnd := 0, uint64(0), size
	switch f := f.(type) {
	case *File:
		leastRank, dataAt, dataEnd = 1, uint64(f.Header.DataOffset), size-16
	case *File64:
		dataAt = f.Header.DataOffset
	}
	type span struct {
		off, end uint64
		what     string
	}
	var spans []span
	for _, s := range ix.Sections {
		spans = append(spans, span{s.Offset, s.Offset + s.Size, s.Name})
	}
	names := map[string]bool{}
	for i, x := range ix.Tensors {
		if names[string(x.Name)] || ix.Find(string(x.Name)) != i {
			t.Errorf("tensor %d: %q is not found, or another has its name", i, x.Name)
		}
		names[string(x.Name)] = true
		if !rightSize(&x) {
			t.Errorf("tensor %d: %v %v has %d bytes", i, x.DType, x.Shape, x.Raw)
		}
		if x.Encoding == layout.Raw && x.Stored != x.Raw || len(x.Shape) < leastRank || len(x.Shape) > 8 {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Offset < dataAt || x.Offset+x.Stored > dataEnd {
			t.Errorf("tensor %d: outside the data section: %+v", i, x)
		}
		spans = append(spans, span{x.Offset, x.Offset + x.Stored, fmt.Sprintf("tensor %d", i)})
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.off == s.end })
	for i, x := range spans {
		if x.off > x.end || x.end > size {
			t.Errorf("%s: [%d, %d) of %d", x.what, x.off, x.end, size)
		}
		for _, y := range spans[:i] {
			if x.off < y.end && y.off < x.end {
				t.Errorf("%s and %s overlap: %v, %v", x.what, y.what, x, y)
			}
		}
	}
}

// rightSize computes Raw as the formats' tables have it.
func rightSize(x *layout.Tensor) bool {
	n := uint64(1)
	for _, d := range x.Shape {
		n *= d
	}
	elems, size := uint64(x.DType.BlockElems()), uint64(x.DType.BlockBytes())
	switch {
	case x.DType == layout.APR_Q8 && n > 0:
		return x.Raw == 4+n
	case x.DType == layout.APR_Q4:
		return x.Raw == (n+31)/32*18
	}
	return n%elems == 0 && n/elems*size == x.Raw
}

// decodeAny decodes what may be damaged: it must be right or refused in good form.
func decodeAny(t testing.TB, data layout.Bytes) layout.File {
	t.Helper()
	file, err := Decode(data, nil)
	if err != nil {
		var fe *layout.FormatError
		if file != nil || !errors.As(err, &fe) || fe.Format != layout.APR2 || fe.Field == "" || fe.Reason == "" {
			t.Errorf("%v, %v", file, err)
		}
		return nil
	}
	checkIndex(t, file, data)
	return file
}

// small fixtures are those that every byte of can be tried.
var small = []string{"tiny", "shapes", "notensors", "behind", "odd", "scaled"}

func TestTruncated(t *testing.T) {
	for _, name := range small {
		data := fixture(t, name)
		for n := range data {
			if f := decodeAny(t, data[:n]); f != nil && len(f.Audit(data[:n])) == 0 {
				t.Errorf("%s: nothing was found in the first %d of %d bytes", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of header, index and footer every other value.
func TestCorrupted(t *testing.T) {
	for _, data := range []layout.Bytes{literal, fixture(t, "tiny"), fixture(t, "behind")} {
		h := mustDecode(t, data).Header
		for at := range data {
			index := at - int(h.IndexOffset)
			footer := at >= len(data)-footerSize
			if at >= headerSize && (index < 0 || index >= int(h.IndexSize)) && !footer {
				continue
			}
			corrupt(t, slices.Clone(data), at, footer)
		}
	}
}

func corrupt(t *testing.T, data layout.Bytes, at int, footer bool) {
	for v := 1; v < 256; v++ {
		data[at] ^= byte(v)
		f := decodeAny(t, data)
		if f != nil {
			f.Audit(data) // must not panic
		}
		if footer && f == nil {
			t.Errorf("byte %d of the footer: does not open", at)
		}
		data[at] ^= byte(v)
	}
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes Decode allocate
// more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	const perByte, fixed = 6, 4096
	data := slices.Clone(fixture(t, "shapes"))
	h := mustDecode(t, data).Header
	most := uint64(0)
	for at := range int(h.IndexOffset + h.IndexSize) {
		for _, v := range []byte{0x00, 0x01, 0x40, 0x7f, 0x80, 0xff} {
			old := data[at]
			data[at] = v
			most = max(most, allocated(func() { Decode(data, nil) }))
			data[at] = old
		}
	}
	if limit := uint64(perByte*len(data) + fixed); most > limit {
		t.Errorf("a file of %d bytes made Decode allocate %d, more than %d", len(data), most, limit)
	}
	t.Logf("at most %d bytes for a file of %d", most, len(data))
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAllocationOfManyEntries is the same for an index of the smallest entries there are.
func TestAllocationOfManyEntries(t *testing.T) {
	data := manyTensors(t, 20_000)
	got := allocated(func() { mustDecode(t, data) })
	if limit := 6 * uint64(len(data.head)); got > limit {
		t.Errorf("an index of %d bytes made Decode allocate %d, more than %d", len(data.head), got, limit)
	}
	t.Logf("%d bytes for an index of %d", got, len(data.head))
}

// recorder is an Input that notes what is read.
type recorder struct {
	layout.Input
	reads []layout.Section
}

func (r *recorder) Slice(off, n uint64) ([]byte, error) {
	r.reads = append(r.reads, layout.Section{Offset: off, Size: n})
	return r.Input.Slice(off, n)
}

// TestReads makes sure that opening reads but the header and the index.
func TestReads(t *testing.T) {
	in := &recorder{Input: fixture(t, "behind")}
	f := mustDecode(t, in)
	h := f.Header
	want := []layout.Section{{Offset: 0, Size: 64}, {Offset: uint64(h.IndexOffset), Size: uint64(h.IndexSize)}}
	if !slices.Equal(in.reads, want) {
		t.Errorf("Decode read %v, want %v", in.reads, want)
	}
	in.reads = nil
	f.Audit(in)
	want = []layout.Section{{Offset: in.Size() - 16, Size: 16}, {Offset: uint64(h.MetadataOffset), Size: uint64(h.MetadataSize)}}
	if !slices.Equal(in.reads, want) {
		t.Errorf("Audit read %v, want %v", in.reads, want)
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
	for _, tc := range []struct {
		from  uint64
		field string
		at    uint64
	}{{10, "magic", 0}, {70, "index_offset", 34}} {
		_, err := Decode(failing{literal, tc.from}, nil)
		checkError(t, err, errDisk, tc.field, tc.at, "cannot be read")
	}
	in := failing{literal, 300}
	f := mustDecode(t, in)
	if _, err := f.Checksums(in); !errors.Is(err, errDisk) {
		t.Errorf("Checksums: %v", err)
	}
	if got, want := findings(t, in), "!footer@290 apr_version@32 model_type@32 architecture@32"; got != want {
		t.Errorf("findings %q, want %q", got, want)
	}
}
