package gguf

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestValues reads every type of value from bytes written out by hand.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		typ   Type
		bytes string
		want  any
	}{
		{TypeUint8, "\xff", uint8(255)},
		{TypeInt8, "\xff", int8(-1)},
		{TypeUint16, "\x01\x80", uint16(0x8001)},
		{TypeInt16, "\x01\x80", int16(-0x7fff)},
		{TypeUint32, "\x01\x02\x03\x80", uint32(0x80030201)},
		{TypeInt32, "\xfe\xff\xff\xff", int32(-2)},
		{TypeFloat32, "\x00\x00\x00\x80", float32(math.Copysign(0, -1))},
		{TypeBool, "\x00", false},
		{TypeBool, "\x01", true},
		{TypeString, "\x02\x00\x00\x00\x00\x00\x00\x00h\xe9", "h\xe9"}, // as it is, valid or not
		{TypeUint64, "\x01\x00\x00\x00\x00\x00\x00\x80", uint64(1<<63 + 1)},
		{TypeInt64, "\xff\xff\xff\xff\xff\xff\xff\xff", int64(-1)},
		{TypeFloat64, "\x00\x00\x00\x00\x00\x00\xf8\xbf", float64(-1.5)},
		{TypeArray, "\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\xff\xff", []int16{1, -1}},
		{TypeArray, "\x07\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00", []bool{true, false}},
		{TypeArray, "\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00x", []string{"x"}},
	} {
		var a assembler
		a.header(0, 1)
		a.key("key", c.typ)
		in := layout.Bytes(append(a.b, c.bytes...))
		f := format.MustDecode(t, in)
		got, ok, err := f.Get(in, "key")
		if !ok || err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v % x is %#v, %t, %v; want %#v", c.typ, c.bytes, got, ok, err, c.want)
		}
		if x, isFloat := got.(float32); isFloat && !math.Signbit(float64(x)) {
			t.Errorf("%v lost its sign", x)
		}
		md, err := f.Metadata(in)
		if want := (layout.Metadata{{Key: "key", Value: c.want}}); err != nil || !reflect.DeepEqual(md, want) {
			t.Errorf("metadata %v, %v; want %v", md, err, want)
		}
	}
}

func TestArray(t *testing.T) {
	in := format.Read(t, "llama")
	f := format.MustDecode(t, in)
	v, _, err := f.Get(in, "tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	clear(in) // the array does not need it any more
	want := []string{"<unk>", "<s>", "</s>", "▁the", "▁of", "<0x0A>"}
	if got, ok := v.([]string); !ok || !slices.Equal(got, want) {
		t.Errorf("%q", v)
	}
	in = format.Read(t, "llama")
	v, _, _ = f.Get(in, "tokenizer.ggml.scores")
	if scores, ok := v.([]float32); !ok || len(scores) != len(want) {
		t.Errorf("scores are %v", v)
	}
}

func TestKeys(t *testing.T) {
	var got []string
	k := &format.MustDecode(t, format.Read(t, "v3")).keys
	for i := range 5 {
		got = append(got, string(k.key(i))+" "+k.typ(i).String())
	}
	want := []string{"general.architecture string", "general.alignment uint32", "tokens array", "scores array", "flag bool"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if s := Type(13).String(); s != "Type(13)" {
		t.Errorf("%q", s)
	}
}

// TestBools: a bool is 0 or 1; what else it is, is seen when it is asked for.
func TestBools(t *testing.T) {
	var a assembler
	a.header(0, 2)
	a.key("one", TypeBool)
	a.u8(2)
	a.array("many", TypeBool, 3)
	a.b = append(a.b, 1, 0, 0xff)
	in := layout.Bytes(a.b)
	f := format.MustDecode(t, in)
	one, many := uint64(len(a.b)-32), uint64(len(a.b)-1)
	_, ok, err := f.Get(in, "one")
	format.CheckError(t, err, layout.ErrInvalid, "value", one, "")
	if ok {
		t.Error("there, and an error")
	}
	_, _, err = f.Get(in, "many")
	format.CheckError(t, err, layout.ErrInvalid, "value", many, "")
	_, err = f.Metadata(in)
	format.CheckError(t, err, layout.ErrInvalid, "value", one, "")
	found := f.Audit(in)
	if len(found) != 2 || found[0].Warning || found[0].Offset != one || found[1].Offset != many || !errors.Is(found[1], layout.ErrInvalid) {
		t.Errorf("audit: %v", found)
	}
}

// TestText: strings that are not UTF-8 are read as they are, and warned of.
func TestText(t *testing.T) {
	var a assembler
	a.header(0, 2)
	a.strings("tokens", "a", "\xff", "\xc3\xa9", "\x80")
	a.key("name", TypeString)
	a.text("\xe9")
	in := layout.Bytes(a.b)
	f := format.MustDecode(t, in)
	md, err := f.Metadata(in)
	want := layout.Metadata{{Key: "tokens", Value: []string{"a", "\xff", "é", "\x80"}}, {Key: "name", Value: "\xe9"}}
	if err != nil || !reflect.DeepEqual(md, want) {
		t.Errorf("%q, %v", md, err)
	}
	found := f.Audit(in)
	if len(found) != 2 || !found[0].Warning || found[0].Field != "value" || found[1].Field != "value" {
		t.Errorf("audit: %v", found)
	}
}

func TestSummary(t *testing.T) {
	for name, want := range map[string][]layout.Fact{
		"llama": {
			{Label: "name", Value: "Tiny Llama"}, {Label: "architecture", Value: "llama"}, {Label: "file type", Value: "Q8_0"},
			{Label: "parameters", Value: "2336"}, {Label: "context length", Value: "4096"},
			{Label: "embedding length", Value: "32"}, {Label: "layers", Value: "2"},
			{Label: "heads", Value: "4, 1 to 2 for keys and values"}, {Label: "tokenizer", Value: "llama, 6 tokens"},
		},
		"split-00002-of-00003": {
			{Label: "split", Value: "file 2 of 3, 5 tensors in all"},
		},
		"vocabulary": {{Label: "architecture", Value: "test"}, {Label: "tokenizer", Value: "6000 tokens"}},
		"nothing":    nil,
	} {
		in := format.Read(t, name)
		got, err := format.MustDecode(t, in).Summary(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}
