package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const testdata = "../../testdata/gguf"

// described is what the program that wrote a file says is in it.
type described struct {
	File     string
	Version  string
	Size     uint64
	Metadata json.RawMessage
	Files    []struct {
		Path     string
		Metadata json.RawMessage
	}
	Tensors []struct {
		Name      string
		DType     string
		Shape     []uint64
		File      int
		Offset    uint64
		Stored    uint64
		StoredSHA string `json:"stored_sha256"`
	}
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

// descriptions are those of all files of testdata.
func descriptions(t testing.TB) []described {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(testdata, "*.json"))
	if err != nil || len(names) < 50 {
		t.Fatalf("%d descriptions; %v", len(names), err)
	}
	var all []described
	for _, name := range names {
		var d described
		if err := json.Unmarshal(read(t, filepath.Base(name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

func read(t testing.TB, name string) layout.Bytes {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFixtures(t *testing.T) {
	for _, want := range descriptions(t) {
		t.Run(want.File, func(t *testing.T) {
			switch {
			case want.Error != nil:
				_, err := Decode(read(t, want.File), nil)
				checkError(t, err, want.Error.Field, want.Error.Offset)
			case want.Files != nil:
				for i, f := range want.Files {
					checkFile(t, &want, f.Path, i, f.Metadata)
				}
			default:
				checkFile(t, &want, want.File, 0, want.Metadata)
			}
		})
	}
}

func checkError(t *testing.T, err error, field string, offset uint64) {
	t.Helper()
	e, ok := err.(*layout.FormatError)
	if !ok || e.Format != layout.GGUF || e.Field != field || e.Offset != offset || e.Reason == "" {
		t.Errorf("got %v, want an error about %s at %d", err, field, offset)
	}
}

// checkFile compares a file with what is described of the file-th.
func checkFile(t *testing.T, want *described, path string, file int, metadata json.RawMessage) {
	b := read(t, path)
	f := mustDecode(t, b)
	ix := f.Index()
	if ix.Version != want.Version || ix.Size != uint64(len(b)) {
		t.Errorf("version %s, %d bytes; want %s, %d", ix.Version, ix.Size, want.Version, len(b))
	}
	rest := ix.Tensors
	for _, w := range want.Tensors {
		if w.File != file {
			continue
		}
		if len(rest) == 0 {
			t.Fatalf("no tensor %q", w.Name)
		}
		got := rest[0]
		rest = rest[1:]
		if string(got.Name) != w.Name || got.DType.String() != w.DType || !slices.Equal(got.Shape, w.Shape) ||
			got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Stored || got.Encoding != layout.Raw || !ix.Aligned(&got) {
			t.Errorf("got %+v, want %+v", got, w)
			continue
		}
		sum := sha256.Sum256(b[got.Offset:][:got.Stored])
		if hex.EncodeToString(sum[:]) != w.StoredSHA {
			t.Errorf("%s: other bytes", w.Name)
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d tensors too many", len(rest))
	}
	checkMetadata(t, f, b, metadata)
	var found []string
	for _, x := range f.Audit(b) {
		if !x.Warning {
			t.Errorf("not a warning: %v", x)
		}
		found = append(found, x.Field)
	}
	if !slices.Equal(found, want.Findings) && len(found)+len(want.Findings) > 0 {
		t.Errorf("findings %q, want %q", found, want.Findings)
	}
}

// checkMetadata compares what Metadata gives, and Get key by key, with JSON.
func checkMetadata(t *testing.T, f *File, in layout.Input, want json.RawMessage) {
	t.Helper()
	md, err := f.Metadata(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(md)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := exact(t, text), exact(t, want); !reflect.DeepEqual(got, want) {
		t.Errorf("metadata\n%v, want\n%v", got, want)
	}
	i := 0
	for key := range f.Keys() {
		v, ok, err := f.Get(in, key)
		if a, isArray := v.(*Array); isArray {
			v = a.Values()
		}
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

// exact parses JSON, with numbers by their exact value: 1.0 is 1. A binary32 is written
// with the fewest digits that tell it from others, in Go as in Python.
func exact(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return plain(v)
}

func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case json.Number:
		r, _ := new(big.Rat).SetString(string(v))
		return r.String()
	}
	return v
}

func mustDecode(t testing.TB, in layout.Input) *File {
	t.Helper()
	f, err := Decode(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTypesOfPython makes sure that the file of types holds all that ggml has but those
// that the file "newer" holds.
func TestTypesOfPython(t *testing.T) {
	seen := map[layout.DType]bool{}
	for _, name := range []string{"types", "newer"} {
		for _, x := range mustDecode(t, read(t, name+".gguf")).Index().Tensors {
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
		no, count, tensors, ok := mustDecode(t, read(t, name+".gguf")).Split()
		if int(no) != i || count != 3 || tensors != 5 || !ok {
			t.Errorf("%s: %d, %d, %d, %t", name, no, count, tensors, ok)
		}
	}
	if no, count, tensors, ok := mustDecode(t, read(t, "llama.gguf")).Split(); no != 0 || count != 0 || tensors != 0 || ok {
		t.Errorf("no split: %d, %d, %d, %t", no, count, tensors, ok)
	}
}
