package bw2l_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// literal is a file laid down byte by byte after the specification.
const literal = "BW2L\x01" + "\x02hi" + "\x02\x00\x00\x00\x00\x00\x00\x00" + // 0: magic, version, name, section_count
	"\x06layers" + "\x06layers" + "\x00\x00\x00\x00\x00\x00\x00\x00" + // 16: name, type, desc
	"\x49\x00\x00\x00\x00\x00\x00\x00" + // 38: data_length
	"\x01\x00\x00\x00\x00\x00\x00\x00" + // 46: layer_count
	"\x03\x00\x00\x00\x00\x00\x00\x00L 1" + // 54: arch
	"\x00\x00\x00\x3f" + "\xfe\xff\xff\xff\xff\xff\xff\xff" + // 65: scale 0.5, offset -2
	"\x02\x00\x00\x00\x00\x00\x00\x00" + // 77: param_count
	"\x02i8" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x01\xff" + // 85: type, array_len; 96: data
	"\x04fp64" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\xf0\x3f" + // 98; 111: data
	"\x03spm" + "\x04data" + "\x04\x00\x00\x00\x00\x00\x00\x00desc" + // 119
	"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x2a" // 140: data_length; 148: data

func TestDecode(t *testing.T) {
	f := format.Use(t, layout.Bytes(literal))
	if f == nil {
		t.Fatal("refused")
	}
	wantSections := []bw2l.Section{{Name: "layers", Type: "layers", Offset: 46, Size: 73}, {Name: "spm", Type: "data", Offset: 148, Size: 1}}
	for i, s := range f.Sections {
		if w := wantSections[i]; s.Name != w.Name || s.Type != w.Type || s.Offset != w.Offset || s.Size != w.Size {
			t.Errorf("section %d is %+v, want %+v", i, s, w)
		}
	}
	ix := f.Index()
	if ix.Format != layout.BW2L || ix.Version != "1" || ix.Size != 149 || ix.Align != 0 || ix.Flags != nil {
		t.Errorf("index %+v", ix)
	}
	want := []layout.Tensor{
		{Name: []byte("layers.0.0"), Shape: []int{2}, DType: layout.I8, Offset: 96, Stored: 2, Raw: 2,
			Quant: &layout.Quant{Scale: 0.5, Zero: -2}},
		{Name: []byte("layers.0.1"), Shape: []int{1}, DType: layout.F64, Offset: 111, Stored: 8, Raw: 8},
	}
	if !reflect.DeepEqual(ix.Tensors, want) {
		t.Errorf("tensors %+v, want %+v", ix.Tensors, want)
	}
	if want := []layout.Section{{Name: "spm", Offset: 148, Size: 1}}; !slices.Equal(ix.Sections, want) {
		t.Errorf("sections %v, want %v", ix.Sections, want)
	}
}

func TestVersion2(t *testing.T) {
	data := file(2,
		section("b", "array", array("i16", 6, []uint64{3, 2}, strings.Repeat("ab", 6))),
		section("layers", "layers", layers(layer2("x", array("i64", 1, []uint64{}, "12345678")))))
	f := format.Use(t, data)
	if f == nil {
		t.Fatal("refused")
	}
	want := []layout.Tensor{
		{Name: []byte("b"), Shape: []int{2, 3}, DType: layout.I16, Offset: 15 + 24 + 4 + 9 + 16, Stored: 12, Raw: 12},
		{Name: []byte("layers.0.0"), Shape: []int{1}, DType: layout.I64, Offset: f.Index().Size - 8, Stored: 8, Raw: 8},
	}
	if got := f.Index().Tensors; f.Index().Version != "2" || !reflect.DeepEqual(got, want) {
		t.Errorf("tensors %+v, want %+v", got, want)
	}
}

// In file, sections begin at 15; the data of one with a name of one byte is 18 bytes and the
// length of its type further on.
const (
	sectionAt = 15
	arrayAt   = sectionAt + 19 + len("array")
	layersAt  = sectionAt + 19 + len("layers")
	layerAt   = layersAt + 8
)

var refused = []struct {
	name     string
	data     layout.Bytes
	field    string
	at       int
	sentinel error
	reason   string
}{
	{"nothing", layout.Bytes(""), "magic", 0, layout.ErrTruncated, "only 0 are left"},
	{"magic", layout.Bytes("BW2M\x01\x00" + u64(0)), "magic", 0, layout.ErrInvalid, `"BW2M"`},
	{"version 0", file(0), "version", 4, layout.ErrUnsupported, "0, but only 1 and 2"},
	{"version 3", file(3), "version", 4, layout.ErrUnsupported, "3, but"},
	{"name", layout.Bytes("BW2L\x01\x05abc"), "name", 6, layout.ErrTruncated, "only 3 are left"},
	{"section count", layout.Bytes("BW2L\x01\x00" + u64(1<<60)), "section_count", 6, layout.ErrTruncated, "1152921504606846976 records of at least 18 bytes"},
	{"one section more", file(1, section("x", "data", ""))[:len(file(1))+17], "section_count", 7, layout.ErrTruncated, "1 records"},
	{"section name", file(1, section("\xff", "data", "")), "name", sectionAt, layout.ErrInvalid, "not valid UTF-8"},
	{"NUL in section name", file(1, section("\x00", "data", "")), "name", sectionAt, layout.ErrInvalid, "NUL"},
	{"same name", file(1, section("x", "data", ""), section("x", "utf8", "")), "name", sectionAt + 23, layout.ErrDuplicate, `"x"`},
	{"desc", file(1, str8("x")+str8("data")+u64(1<<63)+u64(0)), "desc", sectionAt + 15, layout.ErrTruncated, "9223372036854775808 bytes"},
	{"data length", file(1, str8("x")+str8("data")+str64("")+u64(1)), "data_length", sectionAt + 15, layout.ErrTruncated, "1 bytes, but only 0 are left"},

	{"no array", file(1, section("x", "array", "")), "type", arrayAt, layout.ErrTruncated, "only 0 are left"},
	{"no element type", file(1, section("x", "array", array("", 0, nil, ""))), "type", arrayAt, layout.ErrUnsupported, `""`},
	{"element type", file(1, section("x", "array", array("FP32", 0, nil, ""))), "type", arrayAt, layout.ErrUnsupported, `"FP32"`},
	{"array length", file(1, section("x", "array", array("fp64", 2, nil, "0123456789abcde"))), "array_len", arrayAt + 5, layout.ErrTruncated, "2 records of at least 8"},
	{"array length overflows", file(1, section("x", "array", array("fp64", 1<<61, nil, "01234567"))), "array_len", arrayAt + 5, layout.ErrTruncated, "2305843009213693952"},
	{"bytes behind an array", file(1, section("x", "array", array("i8", 1, nil, "12"))), "data_length", arrayAt - 8, layout.ErrInvalid, "1 of 13 bytes"},
	{"array leaves its section", file(1, str8("x")+str8("array")+str64("")+u64(12)+array("i8", 2, nil, "12")), "array_len", arrayAt + 3, layout.ErrTruncated, "the 1 bytes left"},
	{"version 1 with dims", file(1, section("x", "array", array("i8", 1, []uint64{1}, "1"))), "data_length", arrayAt - 8, layout.ErrInvalid, "9 of 21 bytes"},
	{"no ndim", file(2, section("x", "array", array("i8", 0, nil, ""))), "ndim", arrayAt + 11, layout.ErrTruncated, "only 0 are left"},
	{"ndim", file(2, section("x", "array", array("i8", 1, slices.Repeat([]uint64{1}, 65), "1"))), "ndim", arrayAt + 11, layout.ErrLimit, "65 dimensions, more than 64"},
	{"dims", file(2, section("x", "array", array("i8", 1, []uint64{1, 1}, "")[:20])), "dims", arrayAt + 20, layout.ErrTruncated, "only 0 are left"},
	{"product", file(2, section("x", "array", array("i8", 6, []uint64{2, 2}, "123456"))), "dims", arrayAt + 12, layout.ErrInvalid, "[2 2]"},
	{"product overflows", file(2, section("x", "array", array("i8", 0, []uint64{1 << 32, 1 << 32}, ""))), "dims", arrayAt + 12, layout.ErrInvalid, "than 0"},

	{"layer count", file(1, section("x", "layers", u64(2)+layer1("", 1, 0))), "layer_count", layersAt, layout.ErrTruncated, "2 records of at least 28"},
	{"layer count, version 2", file(2, section("x", "layers", u64(2)+layer2(""))), "layer_count", layersAt, layout.ErrTruncated, "2 records of at least 16"},
	{"layers left over", file(1, section("x", "layers", u64(0)+layer1("", 1, 0))), "data_length", layersAt - 8, layout.ErrInvalid, "28 of 36 bytes"},
	{"arch", file(1, section("x", "layers", layers(u64(28)+"01234567890123456789"))), "arch", layerAt + 8, layout.ErrTruncated, "only 20 are left"},
	{"param count", file(1, section("x", "layers", layers(layer1("", 1, 0)[:20]+u64(1)+"0123456789"))), "param_count", layerAt + 20, layout.ErrTruncated, "1 records of at least 11"},
	{"param count, version 2", file(2, section("x", "layers", layers(u64(0)+u64(1)+"01234567890"))), "param_count", layerAt + 8, layout.ErrTruncated, "1 records of at least 12"},
	{"scale 0", file(1, section("x", "layers", layers(layer1("", 0, 0, array("i8", 1, nil, "1"))))), "scale", layerAt + 8, layout.ErrInvalid, "0, but"},
	{"scale -0", file(1, section("x", "layers", layers(layer1("", float32(math.Copysign(0, -1)), 0, array("i64", 0, nil, ""))))), "scale", layerAt + 8, layout.ErrInvalid, "-0, but"},
	{"scale NaN", file(1, section("x", "layers", layers(layer1("a", float32(math.NaN()), 0, array("fp32", 0, nil, ""), array("i16", 0, nil, ""))))), "scale", layerAt + 9, layout.ErrInvalid, "NaN"},
	{"scale -Inf", file(1, section("x", "layers", layers(layer1("", float32(math.Inf(-1)), 0, array("i32", 0, nil, ""), array("fp32", 0, nil, ""))))), "scale", layerAt + 8, layout.ErrInvalid, "-Inf"},
	{"same tensor", file(1, section("x.0.0", "array", array("i8", 0, nil, "")), section("x", "layers", layers(layer1("", 1, 0, array("i8", 0, nil, ""))))),
		"name", arrayAt + 4 + 11 + 25 + 8 + 28, layout.ErrDuplicate, `"x.0.0"`},
	{"names", file(1, section(strings.Repeat("n", 255), "layers", layers(layer1("", 1, 0, slices.Repeat([]string{array("i8", 0, nil, "")}, 20)...)))),
		"layer_count", layersAt + 254, layout.ErrLimit, "bytes of names"},
}

func TestRefused(t *testing.T) {
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			f, err := bw2l.Decode(test.data, nil)
			format.CheckError(t, err, test.sentinel, test.field, uint64(test.at), test.reason)
			if f != nil {
				t.Error("a file nevertheless")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	sections := file(1, section("x", "data", ""), section("y", "data", ""), section("z", "data", ""))
	arrays := file(1, section("x", "layers", layers(layer1("", 1, 0, array("i8", 0, nil, ""), array("i8", 0, nil, "")))),
		section("y", "array", array("i8", 0, nil, "")))
	const aSection, aLayer, anArray = 18, 16, 12 // the least they take in version 2
	empty := array("i8", 0, []uint64{}, "")
	twice := file(2, section("x", "layers", layers(layer2(""), layer2("", empty))), section("y", "layers", layers(layer2("", empty, empty))))
	ranks := file(2, section("x", "array", array("i8", 1, []uint64{1, 1, 1}, "1")))
	for _, test := range []struct {
		data  layout.Bytes
		lim   layout.Limits
		field string
	}{
		{sections, layout.Limits{Tensors: 3}, ""},
		{sections, layout.Limits{Tensors: 2}, "section_count"},
		{arrays, layout.Limits{Tensors: 3}, ""},
		{arrays, layout.Limits{Tensors: 2}, "tensor_count"},
		{twice, layout.Limits{Tensors: 3}, ""},
		{twice, layout.Limits{Tensors: 2}, "layer_count"},
		{twice, layout.Limits{HeaderBytes: 2*aSection + 3*aLayer + 3*anArray}, ""},
		{twice, layout.Limits{HeaderBytes: 2*aSection + 3*aLayer + 3*anArray - 1}, "param_count"},
		{twice, layout.Limits{HeaderBytes: 2*aSection + 3*aLayer + anArray - 1}, "layer_count"},
		{arrays, layout.Limits{NameBytes: 5}, ""},
		{arrays, layout.Limits{NameBytes: 4}, "name"},
		{ranks, layout.Limits{Rank: 3}, ""},
		{ranks, layout.Limits{Rank: 2}, "ndim"},
	} {
		_, err := bw2l.Decode(test.data, &test.lim)
		var fe *layout.FormatError
		if test.field == "" && err == nil {
			continue
		}
		if !errors.As(err, &fe) || fe.Field != test.field || !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%+v: %v, want one of %q", test.lim, err, test.field)
		}
	}
}

// Opening a file reads headers, and neither elements nor texts.
func TestReads(t *testing.T) {
	const big = 1 << 20
	data := file(2,
		section("tokens", "utf8", strings.Repeat("t", big)),
		section("spm", "data", strings.Repeat("s", big)),
		section("layers", "layers", layers(
			layer2("", array("fp32", big/4, []uint64{big / 4}, strings.Repeat("0", big))),
			layer2(strings.Repeat("x", big), array("i8", big, []uint64{}, strings.Repeat("1", big))))),
		section("transitions", "array", array("fp32", big/4, []uint64{512, 512}, strings.Repeat("2", big))))
	in := &layouttest.Recorder{Input: data}
	f := format.MustDecode(t, in)
	if len(in.Reads) > 16 || in.Total() > 16*4096 {
		t.Errorf("%d reads of %d bytes to open", len(in.Reads), in.Total())
	}
	in.Reads = nil
	if _, err := f.Metadata(in); err != nil || in.Total() > 3*big+4096 {
		t.Errorf("%d reads of %d bytes for metadata, %v", len(in.Reads), in.Total(), err)
	}
	in.Reads = nil
	if _, err := f.Summary(in); err != nil || in.Total() > 2*big+4096 {
		t.Errorf("%d reads of %d bytes for a summary, %v", len(in.Reads), in.Total(), err)
	}
}

func TestUnreadable(t *testing.T) {
	if _, err := bw2l.Decode(layouttest.Failing{Bytes: layout.Bytes(literal), From: 20}, nil); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Decode: %v", err)
	}
	f := format.MustDecode(t, layout.Bytes(literal))
	in := layouttest.Failing{Bytes: layout.Bytes(literal), From: 3}
	if _, err := f.Metadata(in); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Metadata: %v", err)
	}
	if _, err := f.Summary(in); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Summary: %v", err)
	}
	if found := f.Audit(in); len(found) != 1 || found[0].Warning || !errors.Is(found[0], iofault.ErrDisk) {
		t.Errorf("Audit: %v", found)
	}
}
