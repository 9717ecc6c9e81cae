package aprender

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// small are fixtures that every byte of can be tried.
var small = []string{"first", "streaming", "realizar-0.6", "no-tensors"}

// checkPromises: tensors lie behind data_offset, and have as many dimensions as a file can say.
func checkPromises(t testing.TB, f *File, data layout.Bytes, _ *layouttest.Answers) {
	t.Helper()
	for i, x := range f.Index().Tensors {
		if len(x.Shape) > maxDims || x.Alias {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Offset < f.Header.DataOffset || x.Offset+x.Stored > data.Size() {
			t.Errorf("tensor %d: outside the data section: %+v", i, x)
		}
	}
}

// TestTruncated: what opens has no checksum, or a wrong one.
func TestTruncated(t *testing.T) {
	for _, name := range small {
		data := format.Read(t, name)
		for n, cut := range layouttest.Prefixes(data) {
			f := format.Use(t, cut)
			if f == nil {
				continue
			}
			findings := f.Audit(cut)
			sums, err := f.Checksums(cut)
			if err != nil || len(sums) == 0 && len(findings) == 0 {
				t.Errorf("%s: %v, and nothing was found in the first %d of %d bytes", name, err, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of header and index every other value; the header's
// checksum fits, or nothing but it would be tried.
func TestCorrupted(t *testing.T) {
	for _, data := range []layout.Bytes{literal, format.Read(t, "realizar-0.6")} {
		ix := format.MustDecode(t, data).Index().Sections[2]
		for at, damaged := range layouttest.Flipped(data) {
			if at < headerSize || at >= int(ix.Offset) && at < int(ix.Offset+ix.Size) {
				format.Use(t, resum(slices.Clone(damaged)))
			}
		}
	}
}

// TestFields gives every field the values at which sizes wrap.
func TestFields(t *testing.T) {
	fields := []struct {
		name     string
		at, size int
	}{
		{"flags", 6, 2}, {"tensor_count", 8, 4}, {"metadata_offset", 12, 8}, {"metadata_size", 20, 4}, {"index_offset", 24, 8},
		{"data_offset", 32, 8}, {"checksum", 40, 4}, {"name_len", 149, 2}, {"ndim", 153, 1}, {"dims", 154, 8}, {"offset", 162, 8}, {"size", 170, 8},
	}
	values := append(layouttest.Extremes(8), 64, 1<<64-64)
	for _, f := range fields {
		for _, v := range values {
			data := slices.Clone(literal)
			for i := range f.size {
				data[f.at+i] = byte(v >> (8 * i))
			}
			if f.name != "checksum" {
				resum(data)
			}
			format.Use(t, data)
		}
	}
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes Decode allocate
// more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	data := format.Read(t, "first")
	ix := format.MustDecode(t, data).Index().Sections[2]
	bound := layouttest.Bound{PerByte: 6, Fixed: 4096}
	for at, damaged := range layouttest.Overwritten(data, 1, 0x00, 0x01, 0x40, 0x7f, 0x80, 0xff) {
		if at >= int(ix.Offset+ix.Size) {
			break
		}
		resum(damaged)
		bound.Check(t, "Decode", len(damaged), func() { Decode(damaged, nil) })
	}
}

// TestAllocationOfManyEntries has an index of small entries, of which each may be read in
// more than one way.
func TestAllocationOfManyEntries(t *testing.T) {
	data := manyTensors(20_000, func(i int) string { return fmt.Sprintf("%05d", i) })
	for at := 64; at+33 <= len(data); at += 33 {
		data[at+7] = 3 // F64, I8 or Q4_1, of no elements
	}
	layouttest.Bound{PerByte: 8}.Check(t, "Decode", len(data), func() { format.MustDecode(t, data) })
}

// TestReads makes sure that opening reads no tensor and no metadata.
func TestReads(t *testing.T) {
	data := format.Read(t, "now")
	in := &layouttest.Recorder{Input: data}
	f := format.MustDecode(t, in)
	for _, r := range in.Reads[1:] {
		if r.Offset < f.Header.IndexOffset || r.Offset+r.Size > f.Header.DataOffset {
			t.Errorf("Decode read %v", r)
		}
	}
	in.Reads = nil
	f.Audit(in)
	want := []layout.Section{{Offset: f.Header.MetadataOffset, Size: uint64(f.Header.MetadataSize)}}
	if !slices.Equal(in.Reads, want) {
		t.Errorf("Audit read %v, want %v", in.Reads, want)
	}
}

func TestUnreadable(t *testing.T) {
	_, err := Decode(layouttest.Failing{Bytes: literal, From: 100}, nil)
	format.CheckError(t, err, iofault.ErrDisk, "name_len", 128, "cannot be read")
	compressed := patch(6, "\x01")
	_, err = Decode(layouttest.Failing{Bytes: compressed, From: 100}, nil)
	format.CheckError(t, err, iofault.ErrDisk, "name_len", 128, "cannot be read")
	in := layouttest.Failing{Bytes: literal, From: 321}
	if _, err := format.MustDecode(t, in).Checksums(in); err == nil {
		t.Error("a checksum of an unreadable footer")
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		b.Run(fmt.Sprintf("tensors=%d", n), func(b *testing.B) {
			data := manyTensors(n, func(i int) string { return fmt.Sprintf("model.layers.%03d.self_attn.q_proj.%d.weight", i/8, i%8) })
			b.SetBytes(int64(format.MustDecode(b, data).Index().Sections[2].Size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
