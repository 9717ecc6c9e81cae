package safetensors

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func TestTruncated(t *testing.T) {
	for _, name := range []string{"dtypes", "names", "empty"} {
		b := format.Read(t, name)
		for n, cut := range layouttest.Prefixes(b) {
			if f := format.Use(t, cut); f != nil {
				t.Fatalf("%s: %d of %d bytes are a file", name, n, len(b))
			}
		}
	}
}

func TestCorrupted(t *testing.T) {
	b := file(headers[1].text, int(headers[1].data))
	for at, damaged := range layouttest.Flipped(b) {
		if at >= len(b)-int(headers[1].data) {
			break
		}
		format.Use(t, damaged)
	}
}

// TestUnreadable has reading fail from every offset of the header on.
func TestUnreadable(t *testing.T) {
	b := format.Read(t, "names")
	f := format.MustDecode(t, b)
	for from := range sizeBytes + f.header {
		in := layouttest.Failing{Bytes: b, From: from}
		_, err := Decode(in, nil)
		if format.WellFormed(t, b, err); !errors.Is(err, iofault.ErrDisk) {
			t.Errorf("from %d on: %v", from, err)
		}
	}
	if _, err := f.Metadata(layouttest.Failing{Bytes: b, From: sizeBytes}); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("Metadata: %v", err)
	}
}

// TestAllocations gives the decoder files made to cost memory; none may cost more than
// a small multiple of its own size.
func TestAllocations(t *testing.T) {
	const size = 1 << 20
	fill := func(head, each, tail string) layout.Input {
		return layout.Bytes(file(head+strings.Repeat(each, size/len(each))+tail, 0))
	}
	var distinct strings.Builder
	for i := range size / 10 {
		fmt.Fprintf(&distinct, `"%04s":"",`, strconv.FormatInt(int64(i), 36))
	}
	for _, c := range []struct {
		name string
		file layout.Input
	}{
		{"braces", fill(`{"a":{"`, `{`, ``)},
		{"braces in metadata", fill(`{"__metadata__":{"a":"`, `{`, `"}}`)},
		{"braces that are keys", fill(`{"a":{"x":[`, `{"":{}},`, `0]}}`)},
		{"brackets", fill(`{"a":{"x":`, `[`, ``)},
		{"dimensions", fill(`{"a":{"shape":[`, `1,`, `1]}}`)},
		{"digits", fill(`{"a":{"shape":[`, `1`, `]}}`)},
		{"escapes", fill(`{"`, `\n`, `":{}}`)},
		{"metadata", layout.Bytes(file(`{"__metadata__":{`+distinct.String()+`"":""}}`, 0))},
		{"unknown keys", layout.Bytes(file(`{"a":{`+distinct.String()+`"":""}}`, 0))},
		{"header size", layout.Bytes("\x00\xe1\xf5\x05\x00\x00\x00\x00{}")},
		{"tensors", llm(8192, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			header, err := readHeader(c.file, new(layout.Limits).WithDefaults())
			t.Logf("a header of %d bytes, %v", len(header), err)
			bound := layouttest.Bound{PerByte: 12, Fixed: 1 << 14}
			bound.Check(t, "header", len(header), func() { _, _ = Decode(c.file, nil) })
		})
	}
}
