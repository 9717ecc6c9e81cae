package bw2l_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
)

func pairs(keysAndValues ...string) string {
	var s string
	for i := 0; i < len(keysAndValues); i += 2 {
		s += str8(keysAndValues[i]) + str64(keysAndValues[i+1])
	}
	return s
}

func TestMetadata(t *testing.T) {
	data := file(1,
		section("flags", "keyval", pairs("b", "1", "a", "2", "b", "3", "", "4", "\x00", "\xff")),
		str8("arch")+str8("utf8")+str64("described")+str64("R\n"),
		section("layers", "layers", layers(layer1("R", 0.5, -7, array("fp32", 0, nil, "")), layer1("\xfe", 1, 0))),
		section("transitions", "array", array("i8", 0, nil, "")),
		section("name", "utf8", "x"),
		section("?", "who knows", "\x01"),
		section("none", "data", ""),
	)
	want := layout.Metadata{
		{Key: "name", Value: "m"},
		{Key: "descriptions", Value: layout.Metadata{{Key: "arch", Value: "described"}}},
		{Key: "flags", Value: layout.Metadata{
			{Key: "b", Value: "3"}, {Key: "a", Value: "2"}, {Key: "", Value: "4"}, {Key: "\x00", Value: layout.Blob("\xff")},
		}},
		{Key: "arch", Value: "R\n"},
		{Key: "layers", Value: []any{
			layout.Metadata{
				{Key: "arch", Value: "R"}, {Key: "scale", Value: float32(0.5)}, {Key: "offset", Value: int64(-7)}, {Key: "param_count", Value: uint64(1)},
			},
			layout.Metadata{
				{Key: "arch", Value: layout.Blob("\xfe")}, {Key: "scale", Value: float32(1)}, {Key: "offset", Value: int64(0)}, {Key: "param_count", Value: uint64(0)},
			},
		}},
		{Key: "?", Value: layout.Blob("\x01")},
		{Key: "none", Value: layout.Blob{}},
		{Key: "sections", Value: layout.Metadata{{Key: "name", Value: "x"}}},
	}
	f := format.MustDecode(t, data)
	got, err := f.Metadata(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	clear(data) // what Metadata hands out is memory of its own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("without the file: %v", got)
	}
}

func TestDamagedMetadata(t *testing.T) {
	const at = sectionAt + 19 + len("keyval")
	for _, test := range []struct {
		name, keyval, field string
		at                  int
		sentinel            error
	}{
		{"key", "\x05abc", "key", at + 1, layout.ErrTruncated},
		{"no value", "\x01a", "value", at + 2, layout.ErrTruncated},
		{"value", pairs("a", "b")[:10], "value", at + 10, layout.ErrTruncated},
		{"value of 2^64-1 bytes", str8("a") + u64(1<<64-1), "value", at + 10, layout.ErrTruncated},
		{"second key", pairs("a", "b") + "\x01", "key", at + 12, layout.ErrTruncated},
		{"not UTF-8", pairs("a", "b", "\xc3", "d"), "key", at + 11, layout.ErrInvalid},
	} {
		data := file(2, section("x", "keyval", test.keyval))
		f := format.MustDecode(t, data)
		md, err := f.Metadata(data)
		var fe *layout.FormatError
		if md != nil || !errors.As(err, &fe) || fe.Field != test.field || fe.Offset != uint64(test.at) || !errors.Is(err, test.sentinel) {
			t.Errorf("%s: %v, %v, want %s at %d (%v)", test.name, md, err, test.field, test.at, test.sentinel)
		}
		if found := f.Audit(data); len(found) != 1 || found[0].Warning || found[0].Error() != err.Error() {
			t.Errorf("%s: Audit finds %v", test.name, found)
		}
	}
}

func TestMetadataLimit(t *testing.T) {
	data := file(1, section("arch", "utf8", strings.Repeat("1", 204)), section("flags", "keyval", pairs("a", "b")),
		section("layers", "layers", layers(layer1("567", 1, 0))), section("spm", "data", "89"))
	const size = 1 + 204 + 11 + 3 + 2 // name, texts and data; sections and the layer take 100 bytes
	for limit, sentinel := range map[uint64]error{size: nil, size - 1: layout.ErrLimit, 204: layout.ErrLimit, 100: layout.ErrLimit} {
		f, err := bw2l.Decode(data, &layout.Limits{HeaderBytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Metadata(data); !errors.Is(err, sentinel) {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}

func TestAudit(t *testing.T) {
	data := append(file(1,
		str8("a")+str8("new")+str64("\xff")+str64("x"),
		section("arch", "utf8", "\x80"),
		section("flags", "keyval", pairs("a", "\xff"))), "more"...)
	want := []struct {
		field    string
		at       int
		sentinel error
		reason   string
	}{
		{"desc", sectionAt + 14, layout.ErrInvalid, "3 such texts"},
		{"type", sectionAt + 23, layout.ErrUnsupported, `"new"`},
		{"trailing", len(data) - 4, layout.ErrInvalid, "4 bytes"},
	}
	found := format.MustDecode(t, data).Audit(data)
	if len(found) != len(want) {
		t.Fatalf("found %v", found)
	}
	for i, w := range want {
		x := found[i]
		if !x.Warning || x.Field != w.field || x.Offset != uint64(w.at) || !errors.Is(x, w.sentinel) || !strings.Contains(x.Reason, w.reason) {
			t.Errorf("found %v, want %+v", x, w)
		}
	}
}

func TestSummary(t *testing.T) {
	long := strings.Repeat("L\n", 17)
	for _, test := range []struct {
		name string
		data layout.Bytes
		want []layout.Fact
	}{
		{"everything", file(2,
			section("arch", "utf8", "C2 1 2\nR\n\n"), section("tokens", "utf8", "a\n\nb\r\n\r\nc d"),
			section("config", "keyval", pairs("feature", "mfsc", "criterion", "ctc", "quantization", "", "other", "x", "name", "n", "description", "d")),
			section("layers", "layers", layers(layer2("C2 1 2", array("i8", 0, []uint64{}, ""), array("i8", 0, []uint64{}, "")), layer2("R")))),
			[]layout.Fact{{Label: "name", Value: "m"}, {Label: "config name", Value: "n"}, {Label: "config description", Value: "d"},
				{Label: "config criterion", Value: "ctc"}, {Label: "config feature", Value: "mfsc"},
				{Label: "layers", Value: "2 with 2 parameters"}, {Label: "tokens", Value: "3"}, {Label: "architecture", Value: "C2 1 2\nR"}}},
		{"nothing but a name", file(1), []layout.Fact{{Label: "name", Value: "m"}}},
		{"other types", file(1, section("arch", "data", "x"), section("tokens", "data", "x"), section("config", "utf8", "x")),
			[]layout.Fact{{Label: "name", Value: "m"}}},
		{"long", file(1, section("arch", "utf8", long)),
			[]layout.Fact{{Label: "name", Value: "m"}, {Label: "architecture", Value: strings.Repeat("L\n", 15) + "… (17 lines)"}}},
		{"as long as can be", file(1, section("arch", "utf8", long[2:])),
			[]layout.Fact{{Label: "name", Value: "m"}, {Label: "architecture", Value: long[2 : len(long)-1]}}},
		{"lines of layers", file(2, section("l", "layers", layers(layer2("A"), layer2("B")))),
			[]layout.Fact{{Label: "name", Value: "m"}, {Label: "layers", Value: "2 with 0 parameters"}, {Label: "architecture", Value: "A\nB"}}},
	} {
		got, err := format.MustDecode(t, test.data).Summary(test.data)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}
