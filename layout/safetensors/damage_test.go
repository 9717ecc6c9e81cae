package safetensors

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

func TestTruncated(t *testing.T) {
	for _, name := range []string{"dtypes", "names", "empty"} {
		b := read(t, name+".safetensors")
		for n := range b {
			_, err := Decode(layout.Bytes(b[:n:n]), nil)
			if err == nil {
				t.Fatalf("%s: %d of %d bytes are a file", name, n, len(b))
			}
			wellFormed(t, b, err)
		}
	}
}

func TestCorrupted(t *testing.T) {
	b := file(headers[1].text, int(headers[1].data))
	for i := range b[:len(b)-int(headers[1].data)] {
		was := b[i]
		for c := range 256 {
			b[i] = byte(c)
			decodeAll(t, b)
		}
		b[i] = was
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
			cost := allocated(func() { _, _ = Decode(c.file, nil) })
			if limit := 12*uint64(len(header)) + 1<<14; cost > limit {
				t.Errorf("a header of %d bytes (%v) took %d bytes, more than %d", len(header), err, cost, limit)
			}
			t.Logf("%.2f bytes for each byte of the header", float64(cost)/float64(max(len(header), 1)))
		})
	}
}

// allocated is the number of bytes of heap that f takes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
