package apr2

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// small64 are fixtures that every byte of can be tried.
var small64 = []string{"first", "streaming", "realizar-0.6", "no-tensors"}

func fixture64(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(fixtures64 + "/" + name + ".apr")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTruncated64: what opens has no checksum, or a wrong one.
func TestTruncated64(t *testing.T) {
	for _, name := range small64 {
		data := fixture64(t, name)
		for n := range data {
			f, ok := decodeAny(t, data[:n]).(*File64)
			if !ok {
				continue
			}
			findings := f.Audit(data[:n])
			sums, err := f.Checksums(data[:n])
			if err != nil || len(sums) == 0 && len(findings) == 0 {
				t.Errorf("%s: %v, and nothing was found in the first %d of %d bytes", name, err, n, len(data))
			}
		}
	}
}

// TestCorrupted64 gives every byte of header and index every other value; the header's
// checksum fits, or nothing but it would be tried.
func TestCorrupted64(t *testing.T) {
	for _, data := range []layout.Bytes{literal64, fixture64(t, "realizar-0.6")} {
		ix := mustDecode64(t, data).Index().Sections[2]
		for at := range data {
			if at >= header64Size && (at < int(ix.Offset) || at >= int(ix.Offset+ix.Size)) {
				continue
			}
			for v := 1; v < 256; v++ {
				damaged := slices.Clone(data)
				damaged[at] ^= byte(v)
				if f := decodeAny(t, resum64(damaged)); f != nil {
					f.Audit(damaged) // must not panic
				}
			}
		}
	}
}

// TestFields64 gives every field the values at which sizes wrap.
func TestFields64(t *testing.T) {
	fields := []struct {
		name     string
		at, size int
	}{
		{"flags", 6, 2}, {"tensor_count", 8, 4}, {"metadata_offset", 12, 8}, {"metadata_size", 20, 4}, {"index_offset", 24, 8},
		{"data_offset", 32, 8}, {"checksum", 40, 4}, {"name_len", 149, 2}, {"ndim", 153, 1}, {"dims", 154, 8}, {"offset", 162, 8}, {"size", 170, 8},
	}
	values := []uint64{0, 1, 64, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 64, 1<<64 - 1}
	for _, f := range fields {
		for _, v := range values {
			data := slices.Clone(literal64)
			for i := range f.size {
				data[f.at+i] = byte(v >> (8 * i))
			}
			if f.name != "checksum" {
				resum64(data)
			}
			if file := decodeAny(t, data); file != nil {
				file.Audit(data)
			}
		}
	}
}

// TestBoundedAllocation64 is TestBoundedAllocation for the 64-byte header.
func TestBoundedAllocation64(t *testing.T) {
	const perByte, fixed = 6, 4096
	data := slices.Clone(fixture64(t, "first"))
	ix := mustDecode64(t, data).Index().Sections[2]
	most := uint64(0)
	for at := range int(ix.Offset + ix.Size) {
		for _, v := range []byte{0x00, 0x01, 0x40, 0x7f, 0x80, 0xff} {
			old := data[at]
			data[at] = v
			resum64(data)
			most = max(most, allocated(func() { Decode(data, nil) }))
			data[at] = old
		}
	}
	if limit := uint64(perByte*len(data) + fixed); most > limit {
		t.Errorf("a file of %d bytes made Decode allocate %d, more than %d", len(data), most, limit)
	}
	t.Logf("at most %d bytes for a file of %d", most, len(data))
}

// TestAllocationOfManyEntries64 has an index of small entries, of which each may be read in
// more than one way.
func TestAllocationOfManyEntries64(t *testing.T) {
	data := many64(20_000, func(i int) string { return fmt.Sprintf("%05d", i) })
	for at := 64; at+33 <= len(data); at += 33 {
		data[at+7] = 3 // F64, I8 or Q4_1, of no elements
	}
	got := allocated(func() { mustDecode64(t, data) })
	if limit := 8 * uint64(len(data)); got > limit {
		t.Errorf("an index of %d bytes made Decode allocate %d, more than %d", len(data), got, limit)
	}
	t.Logf("%d bytes for an index of %d", got, len(data))
}

// TestReads64 makes sure that opening reads no tensor and no metadata.
func TestReads64(t *testing.T) {
	data := fixture64(t, "now")
	in := &recorder{Input: data}
	f := mustDecode64(t, in)
	for _, r := range in.reads[1:] {
		if r.Offset < f.Header.IndexOffset || r.Offset+r.Size > f.Header.DataOffset {
			t.Errorf("Decode read %v", r)
		}
	}
	in.reads = nil
	f.Audit(in)
	want := []layout.Section{{Offset: f.Header.MetadataOffset, Size: uint64(f.Header.MetadataSize)}}
	if !slices.Equal(in.reads, want) {
		t.Errorf("Audit read %v, want %v", in.reads, want)
	}
}

func TestUnreadable64(t *testing.T) {
	_, err := Decode(failing{literal64, 100}, nil)
	checkError(t, err, errDisk, "name_len", 128, "cannot be read")
	compressed := patch64(6, "\x01")
	_, err = Decode(failing{compressed, 100}, nil)
	checkError(t, err, errDisk, "name_len", 128, "cannot be read")
	in := failing{literal64, 321}
	if _, err := mustDecode64(t, in).Checksums(in); err == nil {
		t.Error("a checksum of an unreadable footer")
	}
}

func BenchmarkDecode64(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		b.Run(fmt.Sprintf("tensors=%d", n), func(b *testing.B) {
			data := many64(n, func(i int) string { return fmt.Sprintf("model.layers.%03d.self_attn.q_proj.%d.weight", i/8, i%8) })
			b.SetBytes(int64(mustDecode64(b, data).Index().Sections[2].Size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
