package safetensors

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// headers are seeds, beside the files of testdata and all that TestErrors refuses.
var headers = []struct {
	text string
	data uint16
}{
	{`{}`, 0},
	{`{"__metadata__":{"format":"pt","a":"\u00e9"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}} `, 2},
	{`{"a":{"shape":[],"dtype":"F32","data_offsets":[0,4]},"\n":{"dtype":"F4","shape":[2,1],"data_offsets":[4,5]}}`, 5},
	{`{ "a" : { "x" : [ { "y" : -1.5e+7 } , null ] , "dtype":"BOOL", "shape":[1], "data_offsets":[0,1] } }`, 1},
	{`{"b":{"dtype":"I16","shape":[1],"data_offsets":[2,4]},"a":{"dtype":"F8_E4M3FNUZ","shape":[2],"data_offsets":[0,2]}}`, 4},
	{`{"\ud83d\ude42":{"dtype":"U8","shape":[9223372036854775807,0],"data_offsets":[0,0]}}`, 0},
}

// FuzzAgainstOracle has the decoder and encoding/json read the same headers.
func FuzzAgainstOracle(f *testing.F) {
	for _, h := range headers {
		f.Add([]byte(h.text), h.data)
	}
	for _, name := range []string{"dtypes", "names", "empty"} {
		if h, data := split(format.Read(f, name)); data < 1<<16 {
			f.Add(h, uint16(data))
		}
	}
	f.Fuzz(func(t *testing.T, header []byte, data uint16) { agree(t, header, data) })
}

// split is the header of a file and the size of its data.
func split(b []byte) (header []byte, data int) {
	n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	return b[8 : 8+n], len(b) - 8 - n
}

// agree fails the test where decoder and oracle differ.
func agree(t *testing.T, header []byte, data uint16) {
	t.Helper()
	want, refused := oracle(header, uint64(data))
	b := layout.Bytes(file(string(header), int(data)))
	f, err := Decode(b, nil)
	if (err == nil) != (refused == nil) {
		t.Fatalf("%q with %d bytes of data: decoder says %v, oracle says %v", header, data, err, refused)
	}
	if err != nil {
		format.WellFormed(t, b, err)
		return
	}
	got := opinion{Tensors: records(f)}
	if got.Metadata, err = f.Metadata(b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\n got %+v\nwant %+v", header, got, want)
	}
}

func records(f *File) []record {
	var out []record
	start := sizeBytes + f.header
	for _, x := range f.Index().Tensors {
		out = append(out, record{string(x.Name), x.DType.String(), append([]int{}, x.Shape...), x.Offset - start, x.Offset - start + x.Stored})
	}
	return out
}

// FuzzDecode reads any bytes and, where they are a file, all that there is to ask of it.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"dtypes", "names", "empty", "minilm-slice"} {
		b := format.Read(f, name)
		f.Add([]byte(b[:min(len(b), 1<<14)]))
	}
	for _, h := range headers {
		f.Add(file(h.text, int(h.data)))
	}
	f.Fuzz(func(t *testing.T, b []byte) { format.Use(t, b) })
}

// checkPromises: whatever was accepted has metadata and nothing but oddities, and header and
// tensors, behind it, are all of the file.
func checkPromises(t testing.TB, f *File, data layout.Bytes, got *layouttest.Answers) {
	t.Helper()
	if got.MetadataErr != nil || got.Failed() || got.Checksums != nil {
		t.Errorf("metadata: %v; findings %v, checksums %v", got.MetadataErr, got.Findings, got.Checksums)
	}
	start := sizeBytes + f.header
	covered := start
	for _, x := range f.Index().Tensors {
		if x.Offset < start || x.Alias || x.Encoding != layout.Raw {
			t.Errorf("%+v, behind a header that ends at %d", x, start)
		}
		covered += x.Stored
	}
	if covered != data.Size() {
		t.Errorf("header and tensors are %d of %d bytes", covered, len(data))
	}
}

// TestAgainstOracle walks what the fuzzer would find first: the accepted headers above,
// each with a byte taken out, doubled or changed, at every place.
func TestAgainstOracle(t *testing.T) {
	testmode.Sequential(t)
	for _, h := range headers {
		text := []byte(h.text)
		agree(t, text, h.data)
		if _, err := oracle(text, uint64(h.data)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			agree(t, slices.Delete(slices.Clone(text), i, i+1), h.data)
			agree(t, slices.Insert(slices.Clone(text), i, text[i]), h.data)
			agree(t, text[:i], h.data)
			for c := range 256 {
				b := slices.Clone(text)
				b[i] = byte(c)
				agree(t, b, h.data)
			}
		}
	}
}
