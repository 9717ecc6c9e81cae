package apr2

import (
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// literal is a file of two tensors, byte by byte from the tables of the draft.
var literal = layout.Bytes("" +
	"APR2" + // 0 magic
	"\x02\x00" + "\x00\x00" + // 4 version_major, version_minor
	"\x42\x00\x00\x00" + // 8 flags: QUANTIZED, ALIGNED_64
	"\x20\x00\x00\x00" + "\x02\x00\x00\x00" + // 12 metadata_offset, metadata_size
	"\x22\x00\x00\x00" + "\x62\x00\x00\x00" + // 20 index_offset, index_size
	"\xc0\x00\x00\x00" + // 28 data_offset
	"{}" + // 32 metadata
	"\x02\x00\x00\x00" + "\x00\x00\x00\x00" + // 34 tensor_count, reserved
	"\x01\x00" + "a" + // 42 name_len, name
	"\x00" + "\x01" + // 45 dtype F32, n_dims
	"\x02\x00\x00\x00\x00\x00\x00\x00" + // 47 dims
	"\x00\x00\x00\x00\x00\x00\x00\x00" + // 55 offset
	"\x08\x00\x00\x00\x00\x00\x00\x00" + // 63 size
	"\x00\x00\x00\x00\x00\x00\x00\x00" + // 71 raw_size
	"\x00\x00\x00\x00" + // 79 flags
	"\x01\x00" + "b" + // 83 name_len, name
	"\x10" + "\x02" + // 86 dtype Q8_0, n_dims
	"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x20\x00\x00\x00\x00\x00\x00\x00" + // 88 dims
	"\x40\x00\x00\x00\x00\x00\x00\x00" + // 104 offset
	"\x22\x00\x00\x00\x00\x00\x00\x00" + // 112 size
	"\x00\x00\x00\x00\x00\x00\x00\x00" + // 120 raw_size
	"\x00\x00\x00\x00" + // 128 flags
	layouttest.Zeros(60) + // 132 padding
	"\x00\x00\x80\x3f\x00\x00\x00\xc0" + // 192 a: 1, -2
	layouttest.Zeros(56) + // 200 padding
	"\x00\x3c" + "0123456789abcdef0123456789abcdef" + // 256 b: scale 1, 32 × i8
	"\x60\xa0\xa2\xfa" + "2RPA" + "\x32\x01\x00\x00\x00\x00\x00\x00") // 290 crc32, magic_end, file_size

func TestDecodeLiteral(t *testing.T) {
	f := format.MustDecode(t, literal)
	wantHeader := Header{Major: 2, Flags: Quantized | Aligned64, MetadataOffset: 32, MetadataSize: 2, IndexOffset: 34, IndexSize: 98, DataOffset: 192}
	if f.Header != wantHeader {
		t.Errorf("header %+v, want %+v", f.Header, wantHeader)
	}
	ix := f.Index()
	wantTensors := []layout.Tensor{
		{Name: []byte("a"), DType: layout.F32, Shape: []int{2}, Offset: 192, Stored: 8, Raw: 8},
		{Name: []byte("b"), DType: layout.Q8_0, Shape: []int{1, 32}, Offset: 256, Stored: 34, Raw: 34},
	}
	if !reflect.DeepEqual(ix.Tensors, wantTensors) {
		t.Errorf("tensors %+v, want %+v", ix.Tensors, wantTensors)
	}
	wantSections := []layout.Section{{Name: "header", Size: 32}, {Name: "metadata", Offset: 32, Size: 2},
		{Name: "index", Offset: 34, Size: 98}, {Name: "footer", Offset: 290, Size: 16}}
	if !slices.Equal(ix.Sections, wantSections) {
		t.Errorf("sections %+v, want %+v", ix.Sections, wantSections)
	}
	if ix.Format != layout.APR2 || ix.Version != "2.0" || ix.Align != 64 || ix.Size != 306 || !slices.Equal(ix.Flags, []string{"ALIGNED_64", "QUANTIZED"}) {
		t.Errorf("%v %s, align %d, size %d, flags %v", ix.Format, ix.Version, ix.Align, ix.Size, ix.Flags)
	}
	if sums, err := f.Checksums(literal); err != nil || sums[0].Want != crc32.ChecksumIEEE(literal[:290]) {
		t.Errorf("checksums %+v, %v, want %#x", sums, err, crc32.ChecksumIEEE(literal[:290]))
	}
	if got, want := format.Found(t, literal), "apr_version@32 model_type@32 architecture@32"; got != want {
		t.Errorf("findings %q, want %q", got, want)
	}
}

func TestHeaderFields(t *testing.T) {
	b := []byte("APR2\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c")
	want := Header{0x0201, 0x0403, 0x08070605, 0x0c0b0a09, 0x100f0e0d, 0x14131211, 0x18171615, 0x1c1b1a19}
	if got := readHeader(b); got != want {
		t.Errorf("readHeader: %#x, want %#x", got, want)
	}
	if got := appendHeader(nil, want); string(got) != string(b) {
		t.Errorf("appendHeader: % x, want % x", got, b)
	}
}

func TestFlags(t *testing.T) {
	for bit, want := range []struct {
		flag Flags
		name string
	}{
		{Compressed, "COMPRESSED"}, {Aligned64, "ALIGNED_64"}, {Aligned32, "ALIGNED_32"}, {Sharded, "SHARDED"},
		{Encrypted, "ENCRYPTED"}, {Signed, "SIGNED"}, {Quantized, "QUANTIZED"}, {Streaming, "STREAMING"},
	} {
		f := Flags(1) << bit
		if f != want.flag || f.String() != want.name || !slices.Equal(f.Names(), []string{want.name}) {
			t.Errorf("bit %d: %d %v, want %d %s", bit, f, f, want.flag, want.name)
		}
	}
	for f, want := range map[Flags]string{0: "0x0", 0x42: "ALIGNED_64|QUANTIZED", 0x80000101: "COMPRESSED|0x80000100"} {
		if got := f.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint32(f), got, want)
		}
	}
	for f, want := range map[Flags]uint64{0: 64, Aligned64: 64, Aligned32: 32, Aligned32 | Aligned64: 64, Aligned32 | Sharded: 32} {
		if got := f.Align(); got != want {
			t.Errorf("%v: align %d, want %d", f, got, want)
		}
	}
}

func TestDTypeIDs(t *testing.T) {
	want := map[int]string{
		0: "F32", 1: "F16", 2: "BF16", 3: "I8", 4: "I16", 5: "I32", 6: "I64", 7: "U8",
		16: "Q8_0", 17: "Q4_0", 18: "Q4_1", 19: "Q5_0", 20: "Q5_1",
		0x20: "F64", 0x21: "U16", 0x22: "U32", 0x23: "U64", 0x24: "BOOL", 0x25: "F8_E4M3", 0x26: "F8_E5M2",
		0x49: "Q8_1", 0x4a: "Q2_K", 0x4b: "Q3_K", 0x4c: "Q4_K", 0x4d: "Q5_K", 0x4e: "Q6_K", 0x4f: "Q8_K",
		0x50: "IQ2_XXS", 0x51: "IQ2_XS", 0x52: "IQ3_XXS", 0x53: "IQ1_S", 0x54: "IQ4_NL", 0x55: "IQ3_S", 0x56: "IQ2_S", 0x57: "IQ4_XS",
		0x5d: "IQ1_M", 0x62: "TQ1_0", 0x63: "TQ2_0", 0x67: "MXFP4", 0x68: "NVFP4", 0x69: "Q1_0", 0x6a: "Q2_0",
	}
	for id := range 256 {
		name, known := want[id]
		if !known {
			name = "INVALID"
		}
		d := dtype(uint8(id), 1)
		if d.String() != name {
			t.Errorf("id %#x, minor 1: %v, want %s", id, d, name)
		}
		if back, ok := idOf[d]; known && (!ok || back != uint8(id)) {
			t.Errorf("%v: id %#x, want %#x", d, back, id)
		}
		if id >= 0x20 {
			name = "INVALID"
		}
		if d := dtype(uint8(id), 0); d.String() != name {
			t.Errorf("id %#x, minor 0: %v, want %s", id, d, name)
		}
	}
}

// patch is the literal file with bytes replaced at offsets.
func patch(patches ...any) layout.Bytes { return layouttest.Patched(literal, patches...) }

const ff8 = "\xff\xff\xff\xff\xff\xff\xff\xff"

func TestDecodeErrors(t *testing.T) {
	format.CheckRefused(t, []layouttest.Refusal{
		{"empty", nil, layout.ErrTruncated, "magic", 0, "0 bytes"},
		{"short header", literal[:31], layout.ErrTruncated, "magic", 0, "31 bytes"},
		{"no footer", literal[:47], layout.ErrTruncated, "footer", 32, "47 bytes"},
		{"magic", patch(0, "X"), layout.ErrFormat, "magic", 0, `"XPR2"`},
		{"magic zero", patch(0, "APR\x00\x03"), layout.ErrFormat, "magic", 0, `"APR\x00"`},
		{"major", patch(4, "\x03"), layout.ErrUnsupported, "version_major", 4, "3, not 2"},
		{"encrypted", patch(8, "\x12"), layout.ErrUnsupported, "flags", 8, "ENCRYPTED"},
		{"metadata_offset", patch(12, "\xff\xff\xff\xff"), layout.ErrTruncated, "metadata_offset", 12, "2 bytes at 4294967295"},
		{"metadata_size", patch(16, "\x13\x01"), layout.ErrTruncated, "metadata_offset", 12, "275 bytes at 32"},
		{"metadata over header", patch(12, "\x10"), layout.ErrOverlap, "offset", 16, "section header"},
		{"metadata over index", patch(16, "\x03"), layout.ErrOverlap, "offset", 34, "section index"},
		{"metadata over tensor", patch(12, "\xc7"), layout.ErrOverlap, "offset", 199, `tensor "a"`},
		{"metadata over footer", patch(12, "\x30\x01"), layout.ErrOverlap, "offset", 304, "section footer"},
		{"index_offset", patch(20, "\xff\xff\xff\xff"), layout.ErrTruncated, "index_offset", 20, "98 bytes at 4294967295"},
		{"index_size large", patch(24, "\xff\xff\xff\xff"), layout.ErrTruncated, "index_offset", 20, "4294967295 bytes at 34"},
		{"index_size tiny", patch(24, "\x07"), layout.ErrTruncated, "reserved", 38, "only 3 are left"},
		{"index_size -1", patch(24, "\x61"), layout.ErrTruncated, "offset", 104, "only 27 are left"},
		{"index_size +1", patch(24, "\x63"), layout.ErrInvalid, "index_size", 132, "1 bytes are left"},
		{"data_offset", patch(28, "\x23\x01"), layout.ErrTruncated, "data_offset", 28, "291 is past the footer at 290"},
		{"data_offset max", patch(28, "\xff\xff\xff\xff"), layout.ErrTruncated, "data_offset", 28, "4294967295"},
		{"data_offset over index", patch(28, "\x40"), layout.ErrOverlap, "offset", 64, `tensor "a"`},
		{"tensor_count large", patch(34, "\x03"), layout.ErrTruncated, "tensor_count", 34, "3 records"},
		{"tensor_count max", patch(34, "\xff\xff\xff\xff"), layout.ErrTruncated, "tensor_count", 34, "4294967295 records"},
		{"tensor_count small", patch(34, "\x01"), layout.ErrInvalid, "index_size", 83, "49 bytes are left"},
		{"name_len", patch(42, "\xff\xff"), layout.ErrTruncated, "name", 44, "65535 bytes"},
		{"name UTF-8", patch(44, "\xff"), layout.ErrInvalid, "name", 42, "UTF-8"},
		{"name NUL", patch(44, "\x00"), layout.ErrInvalid, "name", 42, "NUL"},
		{"name twice", patch(85, "a"), layout.ErrDuplicate, "name", 83, `"a"`},
		{"dtype", patch(45, "\x08"), layout.ErrUnsupported, "dtype", 45, "0x08 is no dtype of version 2.0"},
		{"dtype extension", patch(45, "\x22"), layout.ErrUnsupported, "dtype", 45, "0x22 is no dtype of version 2.0"},
		{"dtype with an id of its own", patch(45, "\x40", 6, "\x01"), layout.ErrUnsupported, "dtype", 45, "0x40 is no dtype of version 2.1"},
		{"n_dims 0", patch(46, "\x00"), layout.ErrInvalid, "n_dims", 46, `tensor "a": 0, not 1 to 8`},
		{"n_dims 9", patch(46, "\x09"), layout.ErrInvalid, "n_dims", 46, `tensor "a": 9, not 1 to 8`},
		{"n_dims past the index", patch(87, "\x03"), layout.ErrTruncated, "offset", 112, "only 20 are left"},
		{"dims against size", patch(47, "\x03"), layout.ErrInvalid, "offset", 42, "F32 [3] takes 12"},
		{"dims overflow bytes", patch(54, "\x40"), layout.ErrInvalid, "shape", 42, "2^64"},
		{"dims overflow elements", patch(88, strings.Repeat("\x00\x00\x00\x00\x00\x00\x00\x40", 2)), layout.ErrInvalid, "shape", 83, "2^64 elements"},
		{"dims beyond int", patch(88, ff8+ff8), layout.ErrInvalid, "shape", 83, "dimension 0 of shape [-1 -1]"},
		{"dims against block", patch(96, "\x21"), layout.ErrInvalid, "shape", 83, "block of 32"},
		{"dims 0 with bytes", patch(47, "\x00"), layout.ErrInvalid, "offset", 42, "F32 [0] takes 0"},
		{"offset", patch(55, "\x00\x01"), layout.ErrTruncated, "offset", 42, "8 bytes at 448"},
		{"offset max", patch(55, ff8), layout.ErrTruncated, "offset", 42, "18446744073709551615"},
		{"offset wraps", patch(55, "\x41"+ff8[1:]), layout.ErrTruncated, "offset", 42, "leave the file"},
		{"offset into footer", patch(104, "\x41"), layout.ErrInvalid, "offset", 83, "data section"},
		{"overlap", patch(104, "\x07"), layout.ErrOverlap, "offset", 199, `tensor "a" (8 bytes at 192) and tensor "b"`},
		{"size", patch(63, "\x09"), layout.ErrInvalid, "offset", 42, "9 bytes stored"},
		{"size max", patch(63, ff8), layout.ErrInvalid, "offset", 42, "18446744073709551615 bytes stored"},
		{"raw_size", patch(71, "\x09"), layout.ErrInvalid, "raw_size", 42, "9 bytes, but F32 [2] takes 8"},
		{"raw_size past 255 times size", patch(71, ff8), layout.ErrInvalid, "raw_size", 42, "too few for LZ4"},
		{"raw_size with size 0", patch(63, "\x00", 71, "\x08"), layout.ErrInvalid, "raw_size", 42, "0 bytes are too few for LZ4"},
		{"raw_size of an empty tensor", patch(47, "\x00", 71, "\x01"), layout.ErrInvalid, "raw_size", 42, "F32 [0] takes 0"},
		{"size of a compressed tensor", patch(63, ff8, 71, "\x08"), layout.ErrTruncated, "offset", 42, "leave the file"},
	})
}

func TestDecodeAccepts(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   layout.Bytes
		is   func(*File) bool
	}{
		{"minor", patch(6, "\xff\xff"), func(f *File) bool { return f.Index().Version == "2.65535" }},
		{"unknown flags", patch(9, "\xff\xff\xff"), func(f *File) bool { return len(f.Index().Flags) == 2 }},
		{"signed", patch(8, "\x22"), func(f *File) bool { return f.Header.Flags.Has(Signed) }},
		{"no metadata", patch(16, "\x00"), func(f *File) bool { return f.Header.MetadataSize == 0 }},
		{"metadata elsewhere", patch(12, "\x84"), func(f *File) bool { return f.Index().Sections[1].Offset == 132 }},
		{"reserved", patch(38, "\xff\xff\xff\xff"), func(f *File) bool { return true }},
		{"entry flags", patch(79, "\xff\xff\xff\xff"), func(f *File) bool { return f.Index().Tensors[0].Encoding == layout.Raw }},
		{"extension", patch(6, "\x01", 45, "\x22"), func(f *File) bool { return f.Index().Tensors[0].DType == layout.U32 }},
		{"compressed", patch(71, "\x08"), func(f *File) bool {
			x := f.Index().Tensors[0]
			return x.Encoding == layout.LZ4 && x.Stored == 8 && x.Raw == 8
		}},
		{"compressed 255 times", patch(47, "\xf8\x07", 45, "\x07", 71, "\xf8\x07"), func(f *File) bool {
			x := f.Index().Tensors[0]
			return x.Stored == 8 && x.Raw == 2040
		}},
		{"empty", patch(47, "\x00", 63, "\x00"), func(f *File) bool { return f.Index().Tensors[0].Stored == 0 }},
		{"empty at the footer", patch(47, "\x00", 63, "\x00", 55, "\x62"), func(f *File) bool { return f.Index().Tensors[0].Offset == 290 }},
		{"data_offset 0", patch(28, "\x00", 55, "\xc0", 104, "\x00\x01"), func(f *File) bool { return f.Index().Tensors[1].Offset == 256 }},
		{"tensors out of order", patch(55, "\x40", 104, "\x00"), func(f *File) bool { return f.Index().Tensors[0].Offset == 256 }},
		{"footer", patch(290, layouttest.Zeros(16)), func(f *File) bool { return true }},
	} {
		if f := format.MustDecode(t, tc.in); !tc.is(f) {
			t.Errorf("%s: header %+v, index %+v", tc.name, f.Header, f.Index())
		}
	}
}

func TestDecodeLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   layout.Bytes
		lim  layout.Limits
		at   uint64
	}{
		{"tensor_count", literal, layout.Limits{Tensors: 1}, 0},
		{"shape", literal, layout.Limits{Rank: 1}, 83},
	} {
		_, err := Decode(tc.in, &tc.lim)
		format.CheckError(t, err, layout.ErrLimit, tc.name, tc.at, "more than 1")
	}
	f, err := Decode(literal, &layout.Limits{HeaderBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Metadata(literal)
	format.CheckError(t, err, layout.ErrLimit, "metadata_size", 16, "2 bytes, more than 1")
}

// TestAuditEmpty: a tensor without bytes cannot be misaligned, nor be a gap.
func TestAuditEmpty(t *testing.T) {
	in := patch(47, "\x00", 63, "\x00", 55, "\x0b") // a: F32 [0] at 203
	if got, want := format.Found(t, in), "padding@132 apr_version@32 model_type@32 architecture@32"; got != want {
		t.Errorf("findings %q, want %q", got, want)
	}
}

func TestMetadataErrors(t *testing.T) {
	for _, tc := range []struct {
		name, json string
		want       error
		offset     uint64
	}{
		{"no object", "[]", layout.ErrInvalid, 132},
		{"cut", "{ ", layout.ErrInvalid, 134},
		{"UTF-8", "\xff{", layout.ErrInvalid, 132},
		{"twice", `{"a":1,"a":2}`, layout.ErrDuplicate, 139},
	} {
		in := patch(12, "\x84", 16, string(rune(len(tc.json))), 132, tc.json)
		f := format.MustDecode(t, in)
		_, err := f.Metadata(in)
		t.Run(tc.name, func(t *testing.T) { format.CheckError(t, err, tc.want, "metadata", tc.offset, "") })
		if got := format.Found(t, in); !strings.HasPrefix(got, "!metadata@") {
			t.Errorf("%s: findings %q", tc.name, got)
		}
	}
}

func TestScales(t *testing.T) {
	f := format.MustDecode(t, literal)
	for _, tc := range []struct {
		json, field string // field: the error's
		want        map[string]layout.Quant
	}{
		{json: `{}`, want: map[string]layout.Quant{}},
		{json: `{"quantization":"Q8_0"}`, want: map[string]layout.Quant{}},
		{json: `{"quantization":{"method":"Q8_0"}}`, want: map[string]layout.Quant{}},
		{json: `{"quantization":{"scales":{"x":1e-3,"y":-2},"zero_points":{"y":9223372036854775807}}}`,
			want: map[string]layout.Quant{"x": {Scale: 1e-3}, "y": {Scale: -2, Zero: 1<<63 - 1}}},
		// Between two binary32 numbers, and so near the middle that to round by way of
		// binary64 takes the wrong one.
		{json: `{"quantization":{"scales":{"x":1.00000029802322387695312500000001}}}`,
			want: map[string]layout.Quant{"x": {Scale: 0x1.000006p0}}},
		{json: `{"quantization":{"scales":{"x":0}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":-0.0}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":1e-60}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":1e39}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":"1"}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":null}}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":[1]}}}`, field: scalesField},
		{json: `{"quantization":{"scales":[1]}}`, field: scalesField},
		{json: `{"quantization":{"scales":{"x":1},"zero_points":{"x":1.5}}}`, field: zerosField},
		{json: `{"quantization":{"scales":{"x":1},"zero_points":{"x":9223372036854775808}}}`, field: zerosField},
		{json: `{"quantization":{"scales":{"x":1},"zero_points":{"x":"1"}}}`, field: zerosField},
		{json: `{"quantization":{"scales":{"x":1},"zero_points":{"y":1}}}`, field: zerosField},
		{json: `{"quantization":{"zero_points":3}}`, field: zerosField},
	} {
		md, err := jsontext.Parse([]byte(tc.json), layout.APR2, 32, "metadata", (*layout.Limits)(nil).WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Scales(md)
		switch {
		case tc.field != "":
			format.CheckError(t, err, layout.ErrInvalid, tc.field, 32, "")
		case err != nil || !reflect.DeepEqual(got, tc.want):
			t.Errorf("%s: %v, %v, want %v", tc.json, got, err, tc.want)
		}
	}
}
