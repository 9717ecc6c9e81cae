package apr2

import (
	"errors"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// checkPromises: tensors lie in the data section, and have as many dimensions as a file can
// say.
func checkPromises(t testing.TB, f *File, data layout.Bytes, _ *layouttest.Answers) {
	t.Helper()
	for i, x := range f.Index().Tensors {
		if len(x.Shape) < 1 || len(x.Shape) > 8 || x.Alias {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Offset < uint64(f.Header.DataOffset) || x.Offset+x.Stored > data.Size()-footerSize {
			t.Errorf("tensor %d: outside the data section: %+v", i, x)
		}
	}
}

// small fixtures are those that every byte of can be tried.
var small = []string{"tiny", "shapes", "notensors", "behind", "odd", "scaled"}

func TestTruncated(t *testing.T) {
	for _, name := range small {
		data := format.Read(t, name)
		for n, cut := range layouttest.Prefixes(data) {
			if f := format.Use(t, cut); f != nil && len(f.Audit(cut)) == 0 {
				t.Errorf("%s: nothing was found in the first %d of %d bytes", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of header, index and footer every other value.
func TestCorrupted(t *testing.T) {
	for _, data := range []layout.Bytes{literal, format.Read(t, "tiny"), format.Read(t, "behind")} {
		h := format.MustDecode(t, data).Header
		footer := len(data) - footerSize
		for at, damaged := range layouttest.Flipped(data) {
			if index := at - int(h.IndexOffset); at >= headerSize && (index < 0 || index >= int(h.IndexSize)) && at < footer {
				continue
			}
			if f := format.Use(t, damaged); f == nil && at >= footer {
				t.Errorf("byte %d of the footer: does not open", at)
			}
		}
	}
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes Decode allocate
// more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	data := format.Read(t, "shapes")
	h := format.MustDecode(t, data).Header
	end := int(h.IndexOffset + h.IndexSize)
	bound := layouttest.Bound{PerByte: 6, Fixed: 4096}
	for at, damaged := range layouttest.Overwritten(data, 1, 0x00, 0x01, 0x40, 0x7f, 0x80, 0xff) {
		if at >= end {
			break
		}
		bound.Check(t, "Decode", len(damaged), func() { Decode(damaged, nil) })
	}
}

// TestAllocationOfManyEntries is the same for an index of the smallest entries there are.
func TestAllocationOfManyEntries(t *testing.T) {
	data := manyTensors(t, 20_000)
	layouttest.Bound{PerByte: 6}.Check(t, "Decode", len(data.Head), func() { format.MustDecode(t, data) })
}

// TestReads makes sure that opening reads but the header and the index.
func TestReads(t *testing.T) {
	in := &layouttest.Recorder{Input: format.Read(t, "behind")}
	f := format.MustDecode(t, in)
	h := f.Header
	want := []layout.Section{{Offset: 0, Size: 32}, {Offset: uint64(h.IndexOffset), Size: uint64(h.IndexSize)}}
	if !slices.Equal(in.Reads, want) {
		t.Errorf("Decode read %v, want %v", in.Reads, want)
	}
	in.Reads = nil
	f.Audit(in)
	want = []layout.Section{{Offset: uint64(h.MetadataOffset), Size: uint64(h.MetadataSize)}, {Offset: in.Size() - 16, Size: 16}}
	if !slices.Equal(in.Reads, want) {
		t.Errorf("Audit read %v, want %v", in.Reads, want)
	}
}

func TestUnreadable(t *testing.T) {
	for _, tc := range []struct {
		from  uint64
		field string
		at    uint64
	}{{10, "magic", 0}, {70, "index_offset", 34}} {
		_, err := Decode(layouttest.Failing{Bytes: literal, From: tc.from}, nil)
		format.CheckError(t, err, iofault.ErrDisk, tc.field, tc.at, "cannot be read")
	}
	in := layouttest.Failing{Bytes: literal, From: 292}
	f := format.MustDecode(t, in)
	if _, err := f.Checksums(in); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Checksums: %v", err)
	}
	if got, want := format.Found(t, in), "!footer@290 apr_version@32 model_type@32 architecture@32"; got != want {
		t.Errorf("findings %q, want %q", got, want)
	}
}
