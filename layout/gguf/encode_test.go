package gguf

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
)

func TestWriter(t *testing.T) {
	want, _ := small() // put together from the format's tables
	var buf bytes.Buffer
	w, err := NewWriter(&buf, slices.Values([]layout.Tensor{
		{Name: []byte("one"), DType: layout.F32, Shape: []int{4}},
		{Name: []byte("two"), DType: layout.Q8_0, Shape: []int{2, 32}},
		{Name: []byte("three"), DType: layout.I8, Shape: []int{16}},
	}), layout.Metadata{
		{Key: "general.alignment", Value: uint32(32)}, {Key: "text", Value: "some text"}, {Key: "tokens", Value: []string{"a", "", "bcd"}},
		{Key: "scores", Value: []float32{1.5, -2}}, {Key: "flag", Value: true}, {Key: "large", Value: uint64(7)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{16, 68, 16} {
		if err := w.WriteTensor(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || !bytes.Equal(buf.Bytes(), want) || w.Size() != uint64(len(want)) {
		t.Errorf("%v, size %d:\n% x, want\n% x", err, w.Size(), buf.Bytes(), want)
	}
	f, err := Decode(layout.Bytes(buf.Bytes()), nil)
	if err != nil || len(f.Audit(layout.Bytes(buf.Bytes()))) != 0 {
		t.Errorf("%v", err)
	}
}

// TestWriterFixtures writes the head of what other programs wrote: the same keys, types and tensors
// give the same bytes.
func TestWriterFixtures(t *testing.T) {
	for _, name := range []string{"llama", "values", "types", "shapes", "align256", "align4096", "align8", "vocabulary", "emptyarrays", "nothing", "v3", "newer"} {
		data := format.Read(t, name)
		f := format.MustDecode(t, data)
		md, err := f.Metadata(data)
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if _, err := NewWriter(&buf, slices.Values(f.Index().Tensors), md, nil); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if head := buf.Bytes(); uint64(len(head)) != f.data || !bytes.Equal(head[:min(len(head), len(data))], data[:min(len(head), len(data))]) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	one := func(name string, d layout.DType, shape ...int) []layout.Tensor {
		return []layout.Tensor{{Name: []byte(name), DType: d, Shape: shape}}
	}
	key := func(key string, value any) layout.Metadata { return layout.Metadata{{Key: key, Value: value}} }
	for name, test := range map[string]struct {
		tensors  []layout.Tensor
		metadata layout.Metadata
		want     error
	}{
		"long name":        {one(strings.Repeat("n", 64), layout.F32, 1), nil, layout.ErrLimit},
		"dtype":            {one("a", layout.F8_E4M3, 1), nil, layout.ErrUnsupported},
		"part of a block":  {one("a", layout.Q4_0, 33), nil, layout.ErrInvalid},
		"five dimensions":  {one("a", layout.F32, 1, 1, 1, 1, 1), nil, layout.ErrInvalid},
		"too large":        {one("a", layout.F32, 1<<30, 1<<30, 2), nil, layout.ErrLimit},
		"twice":            {append(one("a", layout.F32, 1), one("a", layout.F32, 1)...), nil, layout.ErrDuplicate},
		"key twice":        {nil, append(key("k", "1"), key("k", "2")...), layout.ErrDuplicate},
		"empty key":        {nil, key("", "1"), layout.ErrInvalid},
		"no value":         {nil, key("k", nil), layout.ErrUnsupported},
		"int":              {nil, key("k", 1), layout.ErrUnsupported},
		"nested":           {nil, key("k", [][]string{{}}), layout.ErrUnsupported},
		"any":              {nil, key("k", []any{}), layout.ErrUnsupported},
		"object":           {nil, key("k", layout.Metadata{}), layout.ErrUnsupported},
		"alignment":        {nil, key("general.alignment", uint32(8192)), layout.ErrInvalid},
		"alignment of 4":   {nil, key("general.alignment", uint32(4)), layout.ErrInvalid},
		"alignment of 48":  {nil, key("general.alignment", uint32(48)), layout.ErrInvalid},
		"alignment's type": {nil, key("general.alignment", uint64(64)), layout.ErrInvalid},
	} {
		var buf bytes.Buffer
		if _, err := NewWriter(&buf, slices.Values(test.tensors), test.metadata, nil); !errors.Is(err, test.want) || buf.Len() != 0 {
			t.Errorf("%s: %v, want %v; %d bytes written", name, err, test.want, buf.Len())
		}
	}
}

func TestWriterFails(t *testing.T) {
	tensors := []layout.Tensor{{Name: []byte("a"), DType: layout.F32, Shape: []int{3}}, {Name: []byte("b"), DType: layout.I8, Shape: []int{5}}}
	write := func(dst io.Writer) error {
		w, err := NewWriter(dst, slices.Values(tensors), nil, nil)
		for _, n := range []int{12, 5} {
			if err == nil {
				err = w.WriteTensor(make([]byte, n))
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	}
	var whole bytes.Buffer
	if err := write(&whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		if err := write(&iofault.Full{Left: n}); !errors.Is(err, iofault.ErrDisk) {
			t.Fatalf("room for %d bytes: %v", n, err)
		}
	}
	w, err := NewWriter(io.Discard, slices.Values(tensors), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("Close without tensors: %v", err)
	}
}

func TestInfoSize(t *testing.T) {
	for _, align := range []uint32{8, 32, 4096} {
		x := layout.Tensor{Name: []byte("abc"), DType: layout.Q4_0, Shape: []int{3, 64}}
		e := encoder{align: uint64(align), order: le}
		if err := e.tensor(&x); err != nil {
			t.Fatal(err)
		}
		if got, want := InfoSize(&x, uint64(align)), uint64(len(e.b))+e.data; got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}
