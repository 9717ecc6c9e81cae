package apr1

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// checkPromises: checksums can be listed of all that opens, and scales are finite.
func checkPromises(t testing.TB, f *File, _ layout.Bytes, got *layouttest.Answers) {
	t.Helper()
	if len(got.Checksums) != 1 {
		t.Errorf("checksums %v", got.Checksums)
	}
	for i, x := range f.Index().Tensors {
		if q := x.Quant; x.Alias || q != nil && (math.IsNaN(float64(q.Scale)) || math.IsInf(float64(q.Scale), 0)) {
			t.Errorf("tensor %d: %+v", i, x)
		}
	}
}

// small fixtures are those that every byte of can be tried; together they have all fields.
var small = []string{"f32", "f16", "int8", "filterbank", "taken", "shuffled", "late", "compressed_int8", "json", "json_whisper", "json_empty"}

func TestTruncated(t *testing.T) {
	for _, name := range small {
		data := format.Read(t, name)
		for n, cut := range layouttest.Prefixes(data) {
			f := format.Use(t, cut)
			if f != nil && f.Container != JSON { // whose data may be empty
				t.Errorf("%s: the first %d of %d bytes open", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of small files other values.
func TestCorrupted(t *testing.T) {
	for _, name := range small {
		data := format.Read(t, name)
		for _, damaged := range layouttest.Overwritten(data, 1, 0x00, 0x7f, 0xc3, 0xff) {
			format.Use(t, damaged)
		}
		for _, damaged := range layouttest.Flipped(data, 1, 3, 0x80) {
			format.Use(t, damaged)
		}
	}
}

// TestExtremes sets every number of every width at every offset to what numbers go wrong at.
func TestExtremes(t *testing.T) {
	for _, name := range []string{"f16", "int8", "late", "compressed_int8", "json_whisper"} {
		for _, width := range []int{2, 4, 8} {
			for _, damaged := range layouttest.Overwritten(format.Read(t, name), width, layouttest.Extremes(width)...) {
				format.Use(t, damaged)
			}
		}
	}
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes opening and
// reading the metadata allocate more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	decode, all := layouttest.Bound{PerByte: 4, Fixed: 16 << 10}, layouttest.Bound{PerByte: 24, Fixed: 16 << 10}
	for _, name := range []string{"f32", "int8", "late", "json_whisper", "merges"} {
		for _, damaged := range layouttest.Overwritten(format.Read(t, name), 1, 0x01, 0x7f, 0xff) {
			var f *File
			var err error
			decode.Check(t, name, len(damaged), func() { f, err = Decode(damaged, nil) })
			if err == nil {
				all.Check(t, name+": metadata", len(damaged), func() { f.Metadata(damaged) })
			}
		}
	}
}

// TestAllocationOfManyEntries is the same for large files of the smallest records there are.
func TestAllocationOfManyEntries(t *testing.T) {
	for _, tc := range []struct {
		container string
		in        layouttest.Sparse
		perByte   uint64
	}{{"f32", manyTensors(65_535, layout.F32), 4}, {"json", manyJSON(20_000), 4}} {
		layouttest.Bound{PerByte: tc.perByte}.Check(t, tc.container, len(tc.in.Head), func() { format.MustDecode(t, tc.in) })
	}
	for what, v := range map[string]*vocabulary{
		"tokens": {Tokens: make([]string, 100_000)},
		"merges": {Merges: make([][2]string, 100_000)},
		"bytes":  {Tokens: slices.Repeat([]string{"\xff"}, 100_000)},
	} {
		data := withVocabulary(v)
		f := format.MustDecode(t, data)
		layouttest.Bound{PerByte: 18}.Check(t, what, len(data), func() { f.Metadata(data) })
	}
}

// TestReads makes sure that opening reads but the head of the file and of its sections, and
// Summary nothing if there is no filterbank.
func TestReads(t *testing.T) {
	data := withVocabulary(&vocabulary{Tokens: make([]string, 10_000)})
	in := &layouttest.Recorder{Input: data}
	f := format.MustDecode(t, in)
	v := f.vocabulary.Offset - sizeSize
	want := []layout.Section{{Offset: 0, Size: 68}, {Offset: 52, Size: 96}, {Offset: v, Size: 4096}}
	if !slices.Equal(in.Reads, want) {
		t.Errorf("Decode read %v, want %v", in.Reads, want)
	}
	in.Reads = nil
	if _, err := f.Summary(in); err != nil || len(in.Reads) > 0 {
		t.Errorf("Summary read %v, %v", in.Reads, err)
	}
}

// TestUnreadable has reading fail from every offset on.
func TestUnreadable(t *testing.T) {
	for _, name := range small {
		data := format.Read(t, name)
		for from := range uint64(len(data)) {
			in := layouttest.Failing{Bytes: data, From: from}
			f, err := Decode(in, nil)
			if err != nil {
				if format.WellFormed(t, data, err); !errors.Is(err, iofault.ErrDisk) {
					t.Errorf("%s, %d: %v", name, from, err)
				}
				continue
			}
			if _, err := f.Checksums(in); !errors.Is(err, iofault.ErrDisk) {
				t.Errorf("%s, %d: Checksums: %v", name, from, err)
			}
			for _, finding := range f.Audit(in) {
				if !finding.Warning && !errors.Is(finding, iofault.ErrDisk) {
					t.Errorf("%s, %d: %v", name, from, finding)
				}
			}
			if _, err := f.Summary(in); err != nil && !errors.Is(err, iofault.ErrDisk) {
				t.Errorf("%s, %d: Summary: %v", name, from, err)
			}
		}
	}
}

// TestChanged has the file change after it was opened.
func TestChanged(t *testing.T) {
	data := format.Read(t, "int8")
	f := format.MustDecode(t, data)
	for at, changed := range layouttest.Overwritten(data, 1, 0, 1, 0x80, 0xff) {
		if uint64(at) >= f.vocabulary.Offset {
			format.Again(t, f, changed)
		}
	}
}
