package gguf

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode: the programs that wrote the fixtures have
// said what is in them.
var format = layouttest.Format[*File]{
	ID: layout.GGUF, Decode: Decode, Dir: "../../testdata/gguf", Ext: ".gguf", Least: 50, Promises: checkPromises,
}

func TestWitness(t *testing.T) {
	format.Witness(t, func(t *testing.T, f *File, data layout.Bytes, _ string) { checkGet(t, f, data) })
}

// TestWitnessSplit compares the parts of split files, whose tensors are described together.
func TestWitnessSplit(t *testing.T) {
	parts := 0
	for _, x := range format.Fixtures(t) {
		for i, part := range x.Want.Files {
			parts++
			data := format.Read(t, strings.TrimSuffix(part.Path, ".gguf"))
			want := x.Want
			want.Size, want.Metadata = data.Size(), part.Metadata
			want.Tensors = slices.DeleteFunc(slices.Clone(want.Tensors), func(x layouttest.Tensor) bool { return x.File != i })
			f := format.MustDecode(t, data)
			format.CheckDescribed(t, f, data, &want)
			checkGet(t, f, data)
		}
	}
	if parts < 5 {
		t.Errorf("only %d parts", parts)
	}
}

// checkGet compares what Get gives, key by key, with what Metadata does.
func checkGet(t *testing.T, f *File, in layout.Input) {
	t.Helper()
	md, err := f.Metadata(in)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for key := range md.All() {
		v, ok, err := f.Get(in, key)
		one, err2 := json.Marshal(layout.Metadata{{Key: key, Value: v}})
		two, err3 := json.Marshal(md[i : i+1])
		if !ok || err != nil || err2 != nil || err3 != nil || !bytes.Equal(one, two) {
			t.Errorf("Get(%q): %s, %t, %v; want %s", key, one, ok, err, two)
		}
		i++
	}
	if v, ok, err := f.Get(in, "no such key"); v != nil || ok || err != nil {
		t.Errorf("Get of no key: %v, %t, %v", v, ok, err)
	}
}

// TestTypesOfPython makes sure that the file of types holds all that ggml has but those
// that the file "newer" holds.
func TestTypesOfPython(t *testing.T) {
	seen := map[layout.DType]bool{}
	for _, name := range []string{"types", "newer"} {
		for _, x := range format.MustDecode(t, format.Read(t, name)).Index().Tensors {
			seen[x.DType] = true
		}
	}
	for id := range uint32(64) {
		if d, ok := layout.FromGGML(id); ok && !seen[d] {
			t.Errorf("no tensor of %v", d)
		}
	}
}

func TestSplit(t *testing.T) {
	for i, name := range []string{"split-00001-of-00003", "split-00002-of-00003", "split-00003-of-00003"} {
		no, count, tensors, ok := format.MustDecode(t, format.Read(t, name)).Split()
		if int(no) != i || count != 3 || tensors != 5 || !ok {
			t.Errorf("%s: %d, %d, %d, %t", name, no, count, tensors, ok)
		}
	}
	if no, count, tensors, ok := format.MustDecode(t, format.Read(t, "llama")).Split(); no != 0 || count != 0 || tensors != 0 || ok {
		t.Errorf("no split: %d, %d, %d, %t", no, count, tensors, ok)
	}
}
