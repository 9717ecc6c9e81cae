package apr1

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// checkIndex makes sure of what an Index promises by comparing everything with
// everything, without a line of layout's checks.
func checkIndex(t testing.TB, f *File, data []byte) {
	t.Helper()
	size := uint64(len(data))
	ix := f.Index()
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
		n := uint64(1)
		for _, d := range x.Shape {
			n *= d
		}
		if n/uint64(x.DType.BlockElems())*uint64(x.DType.BlockBytes()) != x.Raw && x.DType.Kind() != layout.KindQuantized {
			t.Errorf("tensor %d: %v %v has %d bytes", i, x.DType, x.Shape, x.Raw)
		}
		if x.Encoding == layout.Raw && x.Stored != x.Raw || x.Encoding != layout.Raw && x.Raw/maxExpansion > x.Stored {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if scale := float64(x.Quant.Scale); math.IsNaN(scale) || math.IsInf(scale, 0) {
			t.Errorf("tensor %d: a scale of %v", i, scale)
		}
		spans = append(spans, span{x.Offset, x.Offset + x.Stored, fmt.Sprintf("tensor %d", i)})
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.off == s.end })
	slices.SortFunc(spans, func(x, y span) int { return int(int64(x.off) - int64(y.off)) })
	for i, x := range spans {
		if x.off > x.end || x.end > size {
			t.Errorf("%s: [%d, %d) of %d", x.what, x.off, x.end, size)
		}
		if i > 0 && x.off < spans[i-1].end {
			t.Errorf("%s and %s overlap: %v, %v", x.what, spans[i-1].what, x, spans[i-1])
		}
	}
}

// useAny decodes what may be damaged, and asks for all there is: the file must be right or
// refused in good form.
func useAny(t testing.TB, data layout.Bytes) *File {
	t.Helper()
	file, err := Decode(data, nil)
	if err != nil {
		if file != nil {
			t.Errorf("a File, and %v", err)
		}
		checkForm(t, err)
		return nil
	}
	f := file.(*File)
	checkIndex(t, f, data)
	md, err := f.Metadata(data)
	if err != nil {
		checkForm(t, err)
	} else if _, err := md.MarshalJSON(); err != nil {
		t.Error(err)
	}
	if _, err := f.Summary(data); err != nil {
		checkForm(t, err)
	}
	if _, err := f.Checksums(data); err != nil {
		t.Error(err)
	}
	f.Audit(data)
	return f
}

func checkForm(t testing.TB, err error) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) || fe.Format != layout.APR1 || fe.Field == "" || fe.Reason == "" {
		t.Errorf("an error in bad form: %v", err)
	}
}

// small fixtures are those that every byte of can be tried; together they have all fields.
var small = []string{"f32", "f16", "int8", "filterbank", "taken", "shuffled", "late", "compressed_int8", "json", "json_whisper", "json_empty"}

func TestTruncated(t *testing.T) {
	for _, name := range small {
		data := fixture(t, name)
		for n := range data {
			f := useAny(t, data[:n])
			if f != nil && f.Container != JSON { // whose data may be empty
				t.Errorf("%s: the first %d of %d bytes open", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of the head and of small files other values.
func TestCorrupted(t *testing.T) {
	for _, name := range small {
		data := fixture(t, name)
		for at := range data {
			for _, v := range []byte{0x00, 0x7f, 0xc3, 0xff, data[at] ^ 1, data[at] + 1} {
				old := data[at]
				data[at] = v
				useAny(t, data)
				data[at] = old
			}
		}
	}
}

// TestExtremes sets every number of every width at every offset to what numbers go wrong at.
func TestExtremes(t *testing.T) {
	extremes := map[int][]uint64{
		2: {0, 1, 1<<15 - 1, 1 << 15, 1<<16 - 1},
		4: {0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1},
		8: {0, 1, 1<<31 - 1, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1},
	}
	for _, name := range []string{"f16", "int8", "late", "compressed_int8", "json_whisper"} {
		data := fixture(t, name)
		for at := range data {
			for width, values := range extremes {
				for _, v := range values {
					extreme(t, data, at, width, v)
				}
			}
		}
	}
}

func extreme(t *testing.T, data layout.Bytes, at, width int, v uint64) {
	if at+width > len(data) {
		return
	}
	field, old := data[at:at+width], [8]byte{}
	copy(old[:], field)
	for i := range field {
		field[i] = byte(v >> (8 * i))
	}
	useAny(t, data)
	copy(field, old[:])
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes opening and
// reading the metadata allocate more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	const decodePerByte, allPerByte, fixed = 4, 24, 16 << 10
	for _, name := range []string{"f32", "int8", "late", "json_whisper", "merges"} {
		data := fixture(t, name)
		mostDecode, mostAll := uint64(0), uint64(0)
		for at := range data {
			for _, v := range []byte{0x01, 0x7f, 0xff} {
				old := data[at]
				data[at] = v
				mostDecode = max(mostDecode, allocated(func() { Decode(data, nil) }))
				if f, err := Decode(data, nil); err == nil {
					mostAll = max(mostAll, allocated(func() { f.Metadata(data) }))
				}
				data[at] = old
			}
		}
		if limit := uint64(decodePerByte*len(data) + fixed); mostDecode > limit {
			t.Errorf("%s: a file of %d bytes made Decode allocate %d, more than %d", name, len(data), mostDecode, limit)
		}
		if limit := uint64(allPerByte*len(data) + fixed); mostAll > limit {
			t.Errorf("%s: a file of %d bytes made Metadata allocate %d, more than %d", name, len(data), mostAll, limit)
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAllocationOfManyEntries is the same for large files of the smallest records there are.
func TestAllocationOfManyEntries(t *testing.T) {
	for container, in := range map[string]sparse{"f32": manyTensors(t, 65_535, layout.F32), "json": manyJSON(20_000)} {
		got := allocated(func() { mustDecode(t, in) })
		most := uint64(4)
		if container == "json" {
			most = 12
		}
		if limit := most * uint64(len(in.head)); got > limit {
			t.Errorf("%s: an index of %d bytes made Decode allocate %d, more than %d", container, len(in.head), got, limit)
		}
		t.Logf("%s: %d bytes for an index of %d", container, got, len(in.head))
	}
	for what, v := range map[string]*Vocabulary{
		"tokens": {Tokens: make([]string, 100_000)},
		"merges": {Merges: make([][2]string, 100_000)},
		"bytes":  {Tokens: slices.Repeat([]string{"\xff"}, 100_000)},
	} {
		data := withVocabulary(t, v)
		f := mustDecode(t, data)
		got := allocated(func() { f.Metadata(data) })
		if limit := uint64(18 * len(data)); got > limit {
			t.Errorf("%s: a file of %d bytes made Metadata allocate %d, more than %d", what, len(data), got, limit)
		}
		t.Logf("%s: %d bytes for a file of %d", what, got, len(data))
	}
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

// TestReads makes sure that opening reads but the head of the file and of its sections, and
// Summary next to nothing.
func TestReads(t *testing.T) {
	data := withVocabulary(t, &Vocabulary{Tokens: make([]string, 10_000)})
	in := &recorder{Input: data}
	f := mustDecode(t, in)
	v := f.vocabulary.Offset - sizeSize
	want := []layout.Section{{Offset: 0, Size: 68}, {Offset: 52, Size: 96}, {Offset: v, Size: 4096}}
	if !slices.Equal(in.reads, want) {
		t.Errorf("Decode read %v, want %v", in.reads, want)
	}
	in.reads = nil
	if _, err := f.Summary(in); err != nil || !slices.Equal(in.reads, []layout.Section{{Offset: v + sizeSize, Size: 4}}) {
		t.Errorf("Summary read %v, %v", in.reads, err)
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

// TestUnreadable has reading fail from every offset on.
func TestUnreadable(t *testing.T) {
	for _, name := range small {
		data := fixture(t, name)
		for from := range uint64(len(data)) {
			in := failing{data, from}
			f, err := Decode(in, nil)
			if err != nil {
				if checkForm(t, err); !errors.Is(err, errDisk) {
					t.Errorf("%s, %d: %v", name, from, err)
				}
				continue
			}
			if _, err := f.Checksums(in); !errors.Is(err, errDisk) {
				t.Errorf("%s, %d: Checksums: %v", name, from, err)
			}
			for _, finding := range f.Audit(in) {
				if !finding.Warning && !errors.Is(finding, errDisk) {
					t.Errorf("%s, %d: %v", name, from, finding)
				}
			}
			if _, err := f.(*File).Summary(in); err != nil && !errors.Is(err, errDisk) {
				t.Errorf("%s, %d: Summary: %v", name, from, err)
			}
		}
	}
}

// TestChanged has the file change after it was opened.
func TestChanged(t *testing.T) {
	data := fixture(t, "int8")
	f := mustDecode(t, data)
	for at := f.vocabulary.Offset; at < f.index.Size; at++ {
		for _, v := range []byte{0, 1, 0x80, 0xff} {
			old := data[at]
			data[at] = v
			if _, err := f.Metadata(data); err != nil {
				checkForm(t, err)
			}
			f.Summary(data)
			data[at] = old
		}
	}
}
