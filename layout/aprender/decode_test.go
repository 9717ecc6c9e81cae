package aprender

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// literal is a file with the 64-byte header, byte by byte from aprender's layout.
var literal = resum(layout.Bytes("" +
	"APR\x00" + // 0 magic
	"\x02" + "\x00" + // 4 version_major, version_minor
	"\x20\x04" + // 6 flags: QUANTIZED, LAYOUT_ROW_MAJOR
	"\x02\x00\x00\x00" + // 8 tensor_count
	"\x40\x00\x00\x00\x00\x00\x00\x00" + // 12 metadata_offset
	"\x02\x00\x00\x00" + // 20 metadata_size
	"\x80\x00\x00\x00\x00\x00\x00\x00" + // 24 tensor_index_offset
	"\xc0\x00\x00\x00\x00\x00\x00\x00" + // 32 data_offset
	layouttest.Zeros(24) + // 40 checksum, reserved
	"{}" + layouttest.Zeros(62) + // 64 metadata
	"\x01\x00" + "a" + // 128 name_len, name
	"\x03" + "\x00" + // 131 dtype F64, ndim
	"\x00\x00\x00\x00\x00\x00\x00\x00" + // 133 offset
	"\x08\x00\x00\x00\x00\x00\x00\x00" + // 141 size
	"\x01\x00" + "b" + // 149 name_len, name
	"\x80" + "\x01" + // 152 dtype APR_Q4, ndim
	"\x02\x00\x00\x00\x00\x00\x00\x00" + // 154 dims
	"\x40\x00\x00\x00\x00\x00\x00\x00" + // 162 offset
	"\x12\x00\x00\x00\x00\x00\x00\x00" + // 170 size
	layouttest.Zeros(14) + // 178 padding
	"\x00\x00\x00\x00\x00\x00\xf0\x3f" + layouttest.Zeros(56) + // 192 a: 1
	"\x00\x3c\x97" + layouttest.Zeros(61) + // 256 b: -1, 1
	"\xda\x5c\xf1\x39")) // 320 crc32, of what never was

// resum writes the checksum of the 64-byte header, if data starts with one.
func resum(data layout.Bytes) layout.Bytes {
	if len(data) >= 64 && (string(data[:4]) == "APR\x00" || string(data[:4]) == "APR2") && data[4] == 2 && le.Uint64(data[12:]) == 64 {
		le.PutUint32(data[40:], checksum(data))
	}
	return data
}

// patch is the literal file with bytes replaced at offsets, and the checksum of its header.
func patch(patches ...any) layout.Bytes { return resum(layouttest.Patched(literal, patches...)) }

func TestDecodeLiteral(t *testing.T) {
	f := format.MustDecode(t, literal)
	want := Header{Major: 2, Flags: 0x420, TensorCount: 2, MetadataOffset: 64, MetadataSize: 2, IndexOffset: 128, DataOffset: 192, Checksum: f.Header.Checksum}
	if f.Header != want {
		t.Errorf("header %+v, want %+v", f.Header, want)
	}
	ix := f.Index()
	tensors := []layout.Tensor{
		{Name: []byte("a"), DType: layout.F64, Shape: []int{}, Offset: 192, Stored: 8, Raw: 8},
		{Name: []byte("b"), DType: layout.APR_Q4, Shape: []int{2}, Offset: 256, Stored: 18, Raw: 18},
	}
	if !reflect.DeepEqual(ix.Tensors, tensors) {
		t.Errorf("tensors %+v, want %+v", ix.Tensors, tensors)
	}
	sections := []layout.Section{{Name: "header", Size: 64}, {Name: "metadata", Offset: 64, Size: 2},
		{Name: "index", Offset: 128, Size: 50}, {Name: "footer", Offset: 320, Size: 4}}
	if !slices.Equal(ix.Sections, sections) {
		t.Errorf("sections %+v, want %+v", ix.Sections, sections)
	}
	if ix.Format != layout.APR2 || ix.Version != "2.0 (64-byte header)" || ix.Align != 64 || ix.Size != 324 ||
		!slices.Equal(ix.Flags, []string{"QUANTIZED", "LAYOUT_ROW_MAJOR"}) {
		t.Errorf("%v %s, align %d, size %d, flags %v", ix.Format, ix.Version, ix.Align, ix.Size, ix.Flags)
	}
	sums, err := f.Checksums(literal)
	if want := (layout.Checksum{Field: "crc32", At: 320, Size: 320, Want: 0x39f15cda}); err != nil || !slices.Equal(sums, []layout.Checksum{want}) {
		t.Errorf("checksums %+v, %v", sums, err)
	}
}

func TestFlags(t *testing.T) {
	f := Flags(0xffff)
	want := []string{"LZ4_COMPRESSED", "ZSTD_COMPRESSED", "ENCRYPTED", "SIGNED", "SHARDED", "QUANTIZED", "HAS_FILTERBANK",
		"HAS_MODEL_CARD", "STREAMING", "HAS_VOCAB", "LAYOUT_ROW_MAJOR", "LAYOUT_COLUMN_MAJOR"}
	if !slices.Equal(f.Names(), want) || f.String() != strings.Join(want, "|")+"|0xf000" || Flags(0).String() != "0x0" {
		t.Errorf("%v, %v", f.Names(), f)
	}
	for bit, flag := range map[int]Flags{0: LZ4Compressed, 1: ZstdCompressed, 2: Encrypted, 3: Signed, 4: Sharded, 11: ColumnMajor} {
		if flag != 1<<bit || flag.Names()[0] != want[bit] {
			t.Errorf("bit %d: %v", bit, flag)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	const ff8 = "\xff\xff\xff\xff\xff\xff\xff\xff"
	unsummed := func(data layout.Bytes) layout.Bytes { clear(data[40:44]); return data }
	draftMagic := slices.Clone(literal)
	copy(draftMagic, "APR2\x02\x00\x21")
	format.CheckRefused(t, []layouttest.Refusal{
		{"checksum", append(slices.Clone(literal[:8]), append([]byte{3}, literal[9:]...)...), layout.ErrChecksum, "checksum", 40, "bytes give"},
		{"checksum under the other magic", draftMagic, layout.ErrChecksum, "checksum", 40, "bytes give"},
		{"major", func() layout.Bytes {
			data := patch(4, "\x03")
			le.PutUint32(data[40:], checksum(data))
			return data
		}(), layout.ErrUnsupported, "version_major", 4, "3, not 2"},
		{"encrypted", patch(6, "\x04"), layout.ErrUnsupported, "flags", 6, "ENCRYPTED is not supported"},
		{"sharded", patch(6, "\x10"), layout.ErrUnsupported, "flags", 6, "SHARDED"},
		{"column-major", patch(6, "\x00\x08"), layout.ErrUnsupported, "flags", 6, "LAYOUT_COLUMN_MAJOR"},
		{"lz4", patch(6, "\x01", 64, "\x00"), layout.ErrUnsupported, "flags", 6, "compressed as a whole"},
		{"zstd", patch(6, "\x02", 24, "\xff\xff"), layout.ErrUnsupported, "flags", 6, "compressed as a whole"},
		{"tensor_count", patch(8, "\xff\xff\xff\xff"), layout.ErrTruncated, "tensor_count", 8, "4294967295 records"},
		{"tensor_count one more", patch(8, "\x03"), layout.ErrTruncated, "size", 190, "8 bytes"},
		{"metadata_size", patch(20, "\xff\xff\xff\xff"), layout.ErrTruncated, "metadata_offset", 12, "4294967295 bytes at 64"},
		{"metadata over index", patch(20, "\x41"), layout.ErrOverlap, "offset", 128, "section index"},
		{"index_offset", patch(24, ff8), layout.ErrTruncated, "tensor_index_offset", 24, "18446744073709551615"},
		{"index over metadata", patch(20, "\x20", 24, "\x41", 65, string(literal[128:178])), layout.ErrOverlap, "offset", 65, "section index"},
		{"data_offset", patch(32, ff8), layout.ErrTruncated, "data_offset", 32, "18446744073709551615"},
		{"data_offset in index", patch(32, "\xb0"), layout.ErrTruncated, "size", 170, "8 bytes, but only"},
		{"data_offset past tensors", patch(32, "\x00\x01"), layout.ErrTruncated, "offset", 149, "18 bytes at 320"},
		{"data over index", patch(32, "\x80"), layout.ErrOverlap, "offset", 128, `tensor "a"`},
		{"name_len", patch(128, "\xff\xff"), layout.ErrTruncated, "name", 130, "65535 bytes"},
		{"name UTF-8", patch(130, "\xff"), layout.ErrInvalid, "name", 128, "UTF-8"},
		{"name NUL", patch(130, "\x00"), layout.ErrInvalid, "name", 128, "NUL"},
		{"name twice", patch(151, "a"), layout.ErrDuplicate, "name", 149, `"a"`},
		{"dtype", patch(131, "\x0b"), layout.ErrUnsupported, "dtype", 131, "11 is no dtype"},
		{"dtype ff", patch(131, "\xff"), layout.ErrUnsupported, "dtype", 131, "255 is no dtype"},
		{"dtype of another size", patch(131, "\x1e"), layout.ErrInvalid, "dtype", 131, "BF16 takes 2"},
		{"dtype with three readings", patch(141, "\x07"), layout.ErrInvalid, "dtype", 131, "F64 takes 8, I8 takes 1, Q4_1 does not fit"},
		{"ndim", patch(132, "\x09"), layout.ErrInvalid, "n_dims", 132, "9, more than 8"},
		{"ndim past the index", patch(132, "\x08"), layout.ErrTruncated, "dims", 189, "8 bytes"},
		{"dims", patch(154, ff8), layout.ErrInvalid, "dtype", 152, "dimension 0 of shape [-1]"},
		{"dims overflow", patch(152, "\x00", 154, ff8), layout.ErrInvalid, "dtype", 152, "dimension 0 of shape [-1]"},
		{"offset", patch(133, ff8), layout.ErrTruncated, "offset", 128, "leave the file"},
		{"offset at the end", patch(133, "\x85"), layout.ErrTruncated, "offset", 128, "8 bytes at 325"},
		{"offset into the footer", patch(162, "\x70"), layout.ErrOverlap, "offset", 320, "section footer"},
		{"overlap", patch(162, "\x07"), layout.ErrOverlap, "offset", 199, `tensor "a"`},
		{"size", patch(141, ff8), layout.ErrInvalid, "dtype", 131, "18446744073709551615 bytes stored"},
		{"two enums", patch(152, "\x0a"), layout.ErrInvalid, "dtype", 152, "Q8_0 does not fit"},
		{"only the header", unsummed(patch(8, "\x00", 20, "\x00", 24, "\x40", 32, "\x40"))[:63], layout.ErrUnsupported, "magic", 0, "late APR1"},
	})
}

func TestDecodeAccepts(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   layout.Bytes
		is   func(*File) bool
	}{
		{"magic", patch(0, "APR2"), func(f *File) bool { return f.Header.Major == 2 }},
		{"minor", func() layout.Bytes {
			data := patch(5, "\x07")
			le.PutUint32(data[40:], checksum(data))
			return data
		}(), func(f *File) bool { return f.Header.Minor == 7 && f.index.Version == "2.7 (64-byte header)" }},
		{"unknown flags", patch(7, "\xf0"), func(f *File) bool { return len(f.index.Flags) == 1 }},
		{"reserved", patch(44, strings.Repeat("\xff", 20)), func(f *File) bool { return true }},
		{"no metadata", patch(20, "\x00"), func(f *File) bool { return f.Header.MetadataSize == 0 }},
		{"no tensors", patch(8, "\x00"), func(f *File) bool { return len(f.index.Tensors) == 0 }},
		{"tensors out of order", patch(133, "\x40", 162, "\x00"), func(f *File) bool { return f.index.Tensors[0].Offset == 256 }},
		{"empty", patch(154, "\x00", 170, "\x00"), func(f *File) bool { return f.index.Tensors[1].Stored == 0 }},
		{"only the header", patch(8, "\x00", 20, "\x00", 24, "\x40", 32, "\x40")[:64], func(f *File) bool { return !f.hasFooter() }},
		{"no footer", literal[:320], func(f *File) bool { return !f.hasFooter() }},
		{"lz4 flag over raw data", patch(6, "\x03"), func(f *File) bool { return f.index.Tensors[0].Encoding == layout.Raw }},
	} {
		if f := format.MustDecode(t, tc.in); !tc.is(f) {
			t.Errorf("%s: header %+v, index %+v", tc.name, f.Header, f.Index())
		}
	}
}

func TestDecodeLimits(t *testing.T) {
	two := manyTensors(2, func(i int) string { return strings.Repeat("n", i+1) })
	for field, lim := range map[string]layout.Limits{"tensor_count": {Tensors: 1}, "name": {NameBytes: 1}} {
		if _, err := Decode(two, &lim); !errors.Is(err, layout.ErrLimit) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	f, err := Decode(literal, &layout.Limits{HeaderBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Metadata(literal)
	format.CheckError(t, err, layout.ErrLimit, "metadata_size", 20, "2 bytes, more than 1")
	long := manyTensors(1, func(int) string { return strings.Repeat("n", 257) })
	_, err = Decode(long, nil)
	format.CheckError(t, err, layout.ErrLimit, "name", 64, "257 bytes, more than 256")
	big := patch(20, "\x00\x00\x00\x01", 24, "\x00\x00\x00\x02", 32, "\x00\x00\x00\x02", 8, "\x00")
	in := layouttest.Sparse{Head: big[:64], Whole: 1 << 26}
	_, err = format.MustDecode(t, in).Metadata(in)
	if err != nil && errors.Is(err, layout.ErrLimit) {
		t.Errorf("16 MiB of metadata: %v", err)
	}
	big = patch(20, "\x01\x00\x00\x01", 24, "\x00\x00\x00\x02", 32, "\x00\x00\x00\x02", 8, "\x00")
	in = layouttest.Sparse{Head: big[:64], Whole: 1 << 26}
	_, err = format.MustDecode(t, in).Metadata(in)
	format.CheckError(t, err, layout.ErrLimit, "metadata_size", 20, "16777217 bytes, more than 16777216")
}

// manyTensors is a file of n empty tensors and nothing else: the smallest entries there are.
func manyTensors(n int, name func(i int) string) layout.Bytes {
	data := slices.Clone(literal[:64])
	le.PutUint32(data[8:], uint32(n))
	copy(data[12:40], "\x40\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00"+"\x40"+layouttest.Zeros(15))
	for i := range n {
		data = le.AppendUint16(data, uint16(len(name(i))))
		data = append(data, name(i)...)
		data = append(data, "\x00\x01"+layouttest.Zeros(24)...)
	}
	data = append(data, make([]byte, -len(data)&63)...)
	le.PutUint64(data[32:], uint64(len(data)))
	return append(resum(data), 0, 0, 0, 0)
}

// TestEnums resolves pairs of ids: what a file's tensors are depends on all of them.
func TestEnums(t *testing.T) {
	const hasChecksum = true
	type entry struct {
		id    uint8
		shape []int
		size  uint64
	}
	q4 := entry{8, []int{256}, 144} // APR_Q4, Q4_K
	for _, tc := range []struct {
		entries []entry
		want    string // the types, or a part of the error
	}{
		{[]entry{{3, []int{2}, 16}}, "F64"},
		{[]entry{{3, []int{2}, 2}}, "I8"},
		{[]entry{{3, []int{32}, 20}}, "Q4_1"},
		{[]entry{{4, []int{2}, 8}, {5, []int{2}, 16}, {6, []int{2}, 2}}, "I32 I64 I8"},
		{[]entry{{4, []int{2}, 4}, {5, []int{2}, 8}, {6, []int{2}, 16}}, "I16 I32 I64"},
		{[]entry{{2, []int{2}, 4}}, "BF16"},
		{[]entry{{2, []int{32}, 18}}, "Q4_0"},
		{[]entry{{7, []int{2}, 2}}, "U8"},
		{[]entry{{8, []int{2}, 18}}, "APR_Q4"},
		{[]entry{{8, []int{2, 128}, 144}}, "APR_Q4"}, // no whole superblocks in a row
		{[]entry{{8, []int{32}, 34}}, "Q8_0"},
		{[]entry{{9, []int{2}, 6}}, "APR_Q8"},
		{[]entry{{9, []int{256}, 210}}, "Q6_K"},
		{[]entry{{12, []int{256}, 144}, {14, []int{256}, 210}}, "Q4_K Q6_K"},
		{[]entry{{30, []int{2}, 4}, {128, []int{2}, 18}, {129, []int{2}, 6}}, "BF16 APR_Q4 APR_Q8"},
		{[]entry{q4}, "8 may be APR_Q4 or Q4_K"},
		{[]entry{q4, {0, []int{1}, 4}}, "8 may be APR_Q4 or Q4_K"},
		{[]entry{q4, {2, []int{1}, 2}, {7, []int{1}, 1}}, "8 may be APR_Q4 or Q4_K"},
		{[]entry{q4, {9, []int{256}, 210}}, "Q4_K Q6_K"},
		{[]entry{q4, {9, []int{2}, 6}}, "APR_Q4 APR_Q8"},
		{[]entry{{10, []int{32}, 34}, q4}, "Q8_0 Q4_K"},
		{[]entry{{129, []int{1}, 5}, q4}, "APR_Q8 APR_Q4"},
		{[]entry{{3, []int{1}, 8}, {4, []int{1}, 2}}, "4 is I16 by the size"},
		{[]entry{{3, []int{0}, 0}}, "F64"}, // nothing to be read wrong
		{[]entry{{3, []int{0}, 0}, {4, []int{1}, 2}}, "I8 I16"},
		{[]entry{{13, []int{256}, 176}, {6, []int{32}, 22}}, "Q5_K Q5_0"},
	} {
		c := resolver{left: allEnums}
		var tensors []layout.Tensor
		var err error
		for i, e := range tc.entries {
			x := layout.Tensor{Name: []byte("x"), Shape: e.shape, Stored: e.size}
			if x.DType, err = c.resolve(&x, e.id, 0, i); err != nil {
				break
			}
			tensors = append(tensors, x)
		}
		if err == nil {
			err = c.finish(tensors, hasChecksum)
		}
		var got []string
		for _, x := range tensors {
			got = append(got, x.DType.String())
		}
		if err == nil && strings.Join(got, " ") != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, %v, want %s", tc.entries, got, err, tc.want)
		}
	}
	c := resolver{left: allEnums}
	x := layout.Tensor{Shape: q4.shape, Stored: q4.size}
	x.DType, _ = c.resolve(&x, q4.id, 0, 0)
	tensors := []layout.Tensor{x}
	if err := c.finish(tensors, !hasChecksum); err != nil || tensors[0].DType != layout.Q4_K {
		t.Errorf("without a checksum of the header, 8 is %v, %v", tensors[0].DType, err)
	}
}

func TestAudit(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   layout.Bytes
		want string
	}{
		{"nothing", literal, ""},
		{"flags", patch(6, "\x0b"), "flags@6 flags@6"},
		{"no footer", literal[:320], "!crc32@320"},
		{"alignment", patch(162, "\x20"), "!offset@224 padding@242"},
		{"order", patch(130, "z"), "name@128"},
		{"gap", patch(32, "\x00", 133, "\x18\x01", 162, "\xc0"), "!offset@280 padding@210"},
		{"metadata", patch(64, "[]"), "!metadata@64"},
		{"metadata cut", patch(20, "\x01"), "!metadata@65"},
		{"required keys are the draft's", patch(20, "\x07", 64, `{"a":1}`), ""},
		{"the draft's footer is none here", append(slices.Clone(literal[:308]), "2RPA\x44\x01\x00\x00\x00\x00\x00\x00"+layouttest.Zeros(4)...), ""},
	} {
		format.MustDecode(t, tc.in)
		if got := format.Found(t, tc.in); got != tc.want {
			t.Errorf("%s: findings %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestDraftLike: where a draft without metadata says 64 and 0, its footer tells it.
func TestDraftLike(t *testing.T) {
	const head = "APR2\x02\x00\x00\x00\x02\x00\x00\x00" + "\x40\x00\x00\x00\x00\x00\x00\x00" + // metadata
		"\x40\x00\x00\x00\x08\x00\x00\x00" + "\x80\x00\x00\x00" // index, data
	draft := layout.Bytes(head + layouttest.Zeros(128-len(head)) + "\x11\x22\x33\x442RPA\x90\x00\x00\x00\x00\x00\x00\x00")
	other := append(layout.Bytes(head+"\x80\x00\x00\x00\x00\x00\x00\x00\x01"), make([]byte, 99)...)
	for _, tc := range []struct {
		name string
		in   layout.Input
		want bool
	}{
		{"footer", draft, false},
		{"no footer", other, true},
		{"footer that cannot be read", layouttest.Failing{Bytes: draft, From: 100}, true},
	} {
		head, err := tc.in.Slice(0, 64)
		if got := Format.Matches(tc.in, head); got != tc.want || err != nil {
			t.Errorf("%s: matches %t, %v", tc.name, got, err)
		}
	}
	_, err := Decode(other, nil)
	format.CheckError(t, err, layout.ErrChecksum, "checksum", 40, "64-byte header")
}

// TestNamesakes: what is not read is refused by name.
func TestNamesakes(t *testing.T) {
	for _, tc := range []struct {
		name, head string
		want       string
	}{
		{"LZ4 container", "APR2\x01\x00\x10\x00\x00" + layouttest.Zeros(23), "LZ4"},
		{"LZ4 container", "APR\x00\x01\x00\x10\x00\x00" + layouttest.Zeros(23), "LZ4"},
		{"zstd container", "APR2\x02\x00\x10\x00\x00\x28\xb5\x2f\xfd" + strings.Repeat("z", 40), "zstd"},
		{"zstd container", "APR\x00\x02\x07\x10\x00\x00\x28\xb5\x2f\xfd" + strings.Repeat("z", 40), "zstd"},
		{"late APR1", "APR\x00\x02\x00" + strings.Repeat("z", 58), "late APR1"},
	} {
		_, err := Decode(layout.Bytes(tc.head), nil)
		t.Run(tc.name, func(t *testing.T) {
			format.CheckError(t, err, layout.ErrUnsupported, "magic", 0, tc.want)
		})
	}
}
