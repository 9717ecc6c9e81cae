package convert_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func toGGUF(t *testing.T, m *loader.Model, opts *convert.Options) (*loader.Model, *convert.Plan) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.gguf")
	p, err := convert.Write(context.Background(), m, path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, p.Path, nil), p
}

// TestGGUFMetadata: values and types are the source's, also by way of other formats.
func TestGGUFMetadata(t *testing.T) {
	for _, name := range []string{"values", "llama", "vocabulary", "emptyarrays", "align256", "nothing", "v1", "v2", "unicodekey"} {
		m := open(t, "../testdata/gguf/"+name+".gguf", nil)
		want := metadata(t, m)
		direct, _ := toGGUF(t, m, nil)
		apr, _ := toAPR2(t, m, nil)
		safe, _ := toSafeTensors(t, m, nil)
		for how, via := range map[string]*loader.Model{"directly": m, "APR2": apr, "SafeTensors": safe, "GGUF": direct} {
			out, _ := toGGUF(t, via, nil)
			got := metadata(t, out)
			if !sameTyped(got, want) {
				t.Errorf("%s, %s:\n%v, want\n%v", name, how, got, want)
			}
			if out.Files()[0].Layout.Index().Align != m.Files()[0].Layout.Index().Align {
				t.Errorf("%s, %s: another alignment", name, how)
			}
			sameValues(t, out, m)
		}
	}
}

// sameTyped compares keys in order, values and their Go types. Floats are compared as text, for NaN.
func sameTyped(a, b layout.Metadata) bool {
	return slices.EqualFunc(a, b, func(a, b layout.Entry) bool {
		return a.Key == b.Key && reflect.TypeOf(a.Value) == reflect.TypeOf(b.Value) && fmt.Sprint(a.Value) == fmt.Sprint(b.Value)
	})
}

// TestGGUFFromOthers: what a SafeTensors or APR2 file says gets GGUF's keys, and the rest stays.
func TestGGUFFromOthers(t *testing.T) {
	a := counting("a.weight", layout.F16, 2, 32)
	md := `{"model_type":"bert","architecture":{"n":1.5},"vocab":["a","b"],"model_card":{"name":"tiny","license":"mit"},"x":[1]}`
	out, p := toGGUF(t, openBytes(t, apr2File(t, parse(t, md), a)), nil)
	want := layout.Metadata{
		{Key: "general.architecture", Value: "bert"}, {Key: "general.name", Value: "tiny"}, {Key: "general.license", Value: "mit"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b"}}, {Key: "general.file_type", Value: uint32(1)},
		{Key: "apr2.architecture", Value: `{"n":1.5}`}, {Key: "apr2.model_card", Value: `{"name":"tiny","license":"mit"}`}, {Key: "apr2.x", Value: "[1]"},
	}
	if got := metadata(t, out); !sameTyped(got, want) {
		t.Errorf("%v, want\n%v", got, want)
	}
	planned, err := layout.EncodeJSON(p.Metadata)
	if text, err2 := layout.EncodeJSON(want); err != nil || err2 != nil || string(planned) != string(text) {
		t.Errorf("planned %s, want\n%s", planned, text)
	}
	c, err := out.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Float("n"); n != 1.5 || err != nil {
		t.Errorf("the architecture's n is %v, %v", n, err)
	}
	out, _ = toGGUF(t, openBytes(t, safeTensors(8, `{"format":"pt"}`, a)), &convert.Options{DType: layout.Q8_0, Set: layout.Metadata{
		{Key: "general.architecture", Value: "x"}, {Key: "n", Value: "7"}, {Key: "typed", Value: "u8:7"}, {Key: "general.file_type", Value: "9"},
		{Key: "f", Value: "0.5"}, {Key: "yes", Value: "true"}, {Key: "list", Value: "[1,-2]"}, {Key: "nan", Value: "f64:NaN"}, {Key: "text", Value: "string:1"}, {Key: "own", Value: int16(3)}, {Key: "o", Value: "{}"},
	}})
	want = layout.Metadata{
		{Key: "general.file_type", Value: uint32(9)}, {Key: "general.quantization_version", Value: uint32(2)},
		{Key: "general.architecture", Value: "x"}, {Key: "n", Value: uint32(7)}, {Key: "typed", Value: uint8(7)},
		{Key: "f", Value: float32(0.5)}, {Key: "yes", Value: true}, {Key: "list", Value: []int32{1, -2}}, {Key: "nan", Value: zero / zero}, {Key: "text", Value: "1"}, {Key: "own", Value: int16(3)}, {Key: "o", Value: "{}"},
		{Key: "apr2.safetensors", Value: `{"format":"pt"}`},
	}
	if got := metadata(t, out); !sameTyped(got, want) || tensor(t, out, "a.weight").DType() != layout.Q8_0 {
		t.Errorf("%v, want\n%v", got, want)
	}
	for _, value := range []string{"u8:256", "i8:x", "f32:1e99", "bool:1", "u8:[1,2]"} {
		bad := &convert.Options{Set: layout.Metadata{{Key: "a", Value: value}}}
		_, err := convert.NewPlan(context.Background(), openBytes(t, safeTensors(8, `{}`, a)), "x.gguf", bad)
		says := "a=" + value + ": invalid: no value of type " + value[:strings.Index(value, ":")]
		if !errors.Is(err, layout.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// TestGGUFSetKeepsTypes: a key that is there keeps its type, lists too, and no one says that a whole file is part of a split.
func TestGGUFSetKeepsTypes(t *testing.T) {
	m := openBytes(t, apr2File(t, parse(t, `{"gguf":{"list":["a"],"heads":[8,0],"split.count":3},"gguf_types":{"heads":"[i32]","split.count":"u16"}}`), counting("a.weight", layout.F16, 2, 32)))
	out, p := toGGUF(t, m, &convert.Options{Set: layout.Metadata{{Key: "list", Value: `["b","c"]`}, {Key: "heads", Value: "[1,2]"}}})
	want := layout.Metadata{{Key: "list", Value: []string{"b", "c"}}, {Key: "heads", Value: []int32{1, 2}}}
	if got := metadata(t, out); !sameTyped(got, want) || !sameTyped(p.Metadata, want) {
		t.Errorf("%v, want\n%v", got, want)
	}
	for setting, says := range map[layout.Entry]string{
		{Key: "list", Value: "b"}:              "list=b: invalid: no value of type [string]",
		{Key: "heads", Value: "3"}:             "heads=3: invalid: no value of type [i32]",
		{Key: "split.count", Value: "u16:1"}:   "split.count: unsupported operation: it says how",
		{Key: "split.no", Value: uint16(0)}:    "split.no: unsupported operation: it says how",
		{Key: "split.tensors.count", Value: 1}: "split.tensors.count: unsupported operation: it says how",
	} {
		_, err := convert.NewPlan(t.Context(), m, "x.gguf", &convert.Options{Set: layout.Metadata{setting}})
		if err == nil || !strings.Contains(err.Error(), "metadata "+says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

var zero float64

// TestGGUFFileType: it is true of the new file.
func TestGGUFFileType(t *testing.T) {
	m := open(t, "../testdata/gguf/llama.gguf", nil)
	for d, want := range map[layout.DType]uint32{layout.F32: 0, layout.F16: 1, layout.Q4_0: 2, layout.Q8_0: 7, layout.BF16: 32} {
		out, _ := toGGUF(t, m, &convert.Options{DType: d})
		if got, _ := metadata(t, out).Get("general.file_type"); got != want {
			t.Errorf("%v: %v, want %d", d, got, want)
		}
		if _, ok := metadata(t, out).Get("apr2.quantization"); ok {
			t.Errorf("%v: APR2's key", d)
		}
	}
}

// TestGGUFStandIns: types that ggml lacks keep their bits, but for those that may be taken for weights.
func TestGGUFStandIns(t *testing.T) {
	u8, c64, f8 := counting("u8", layout.U8, 5), counting("c64", layout.C64, 2), counting("f8.weight", layout.F8_E4M3, 2, 8)
	m := openBytes(t, safeTensors(8, `{}`, c64, u8))
	out, _ := toGGUF(t, m, nil)
	if a, b := tensor(t, out, "u8").DType(), tensor(t, out, "c64").DType(); a != layout.I8 || b != layout.I64 {
		t.Errorf("%v, %v", a, b)
	}
	back, _ := toSafeTensors(t, out, nil)
	if a, b := tensor(t, back, "u8").DType(), tensor(t, back, "c64").DType(); a != layout.U8 || b != layout.C64 {
		t.Errorf("back: %v, %v", a, b)
	}
	sameValues(t, back, m)
	m = openBytes(t, safeTensors(8, `{}`, f8))
	var part *convert.CodesError
	if _, err := convert.NewPlan(context.Background(), m, "x.gguf", nil); !errors.As(err, &part) {
		t.Errorf("F8 without a scale: %v", err)
	}
	out, _ = toGGUF(t, m, &convert.Options{PlainF8: true})
	if tensor(t, out, "f8.weight").DType() != layout.F32 {
		t.Errorf("%v", tensor(t, out, "f8.weight").DType())
	}
	sameValues(t, out, m)
}

// TestGGUFShards: a split has gguf-split's names and keys, reads as one model, and merges to what it was.
func TestGGUFShards(t *testing.T) {
	m := open(t, "../testdata/gguf/llama.gguf", nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	whole, err := convert.NewPlan(context.Background(), m, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: whole.Bytes / 2})
	if err != nil {
		t.Fatal(err)
	}
	if p.Shards < 2 || p.Removed != path || p.Path != filepath.Join(dir, fmt.Sprintf("m-00001-of-%05d.gguf", p.Shards)) {
		t.Fatalf("%d shards, removed %q, path %q", p.Shards, p.Removed, p.Path)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != p.Shards {
		t.Errorf("%v", entries)
	}
	sum := uint64(0)
	for i, e := range entries {
		info, _ := e.Info()
		sum += uint64(info.Size())
		if info.Size() > int64(whole.Bytes/2) {
			t.Errorf("%s has %d bytes", e.Name(), info.Size())
		}
		if want := fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, p.Shards); e.Name() != want {
			t.Errorf("%s, want %s", e.Name(), want)
		}
	}
	if sum != p.Bytes {
		t.Errorf("%d bytes, planned %d", sum, p.Bytes)
	}
	split := open(t, dir, nil)
	sameValues(t, split, m)
	merged, _ := toGGUF(t, split, nil)
	if got, want := metadata(t, merged), metadata(t, m); !sameTyped(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	sameValues(t, merged, m)
	// Nothing of the model that is read is replaced.
	if _, err := convert.Write(context.Background(), split, path, &convert.Options{ShardBytes: whole.Bytes / 2}); err == nil {
		t.Error("replaced its own source")
	}
	// A single file again; the shards stay, and are named.
	p, err = convert.Write(context.Background(), m, path, nil)
	if err != nil || len(p.Left) != len(entries) {
		t.Errorf("%v, %q", err, p.Left)
	}
}

// TestSplitBeside: of two writers with another number of shards each, the later one says that the other's are there,
// which were not when it began.
func TestSplitBeside(t *testing.T) {
	m, path := open(t, "../testdata/gguf/llama.gguf", nil), filepath.Join(t.TempDir(), "m.gguf")
	whole, err := convert.NewPlan(t.Context(), m, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	other := sync.OnceFunc(func() {
		if _, err := convert.Write(t.Context(), m, path, &convert.Options{ShardBytes: whole.Bytes / 4}); err != nil {
			t.Error(err)
		}
		others, _ = filepath.Glob(filepath.Join(filepath.Dir(path), "*.gguf"))
	})
	p, err := convert.Write(t.Context(), m, path, &convert.Options{ShardBytes: whole.Bytes / 2, Progress: func(_, _ uint64) { other() }})
	if err != nil {
		t.Fatal(err)
	}
	if len(others) <= p.Shards || !slices.Equal(p.Left, others) {
		t.Errorf("%q, want %q", p.Left, others)
	}
}

// TestGGUFShapes: five dimensions are joined to four with a word, and the key of ComfyUI-GGUF gives them back. Its shapes of blocks
// that fill no rows hold once these are plain numbers.
func TestGGUFShapes(t *testing.T) {
	shape := []int{2, 3, 1, 2, 2}
	m := openBytes(t, safeTensors(8, `{}`, counting("patch.weight", layout.F16, shape...)))
	path := filepath.Join(t.TempDir(), "out.gguf")
	p, err := convert.Write(context.Background(), m, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := p.Tensors[0]; !slices.Equal(x.Shape, []int{6, 1, 2, 2}) || x.Changed != "GGUF has at most 4 dimensions, the outermost are joined" {
		t.Errorf("%v: %q", x.Shape, x.Changed)
	}
	out := open(t, path, nil)
	if x := tensor(t, out, "patch.weight"); !slices.Equal(x.Shape(), shape) {
		t.Errorf("read as %v", x.Shape())
	}
	if v, _ := metadata(t, out).Get("comfy.gguf.orig_shape.patch.weight"); !reflect.DeepEqual(v, []int32{2, 3, 1, 2, 2}) {
		t.Errorf("key %v", v)
	}
	sameValues(t, out, m)

	comfy := open(t, "../testdata/gguf/comfy.gguf", nil)
	safe, _ := toSafeTensors(t, comfy, nil)
	sameValues(t, safe, comfy)
	if x := tensor(t, safe, "odd.weight"); !slices.Equal(x.Shape(), []int{16, 4, 2, 4}) { // what gen_gguf.py has put into the key
		t.Errorf("odd.weight %v", x.Shape())
	}
	back, _ := toGGUF(t, comfy, nil)
	sameTensors(t, back, comfy)
}

// TestGGUFAlignment: what ggml's documentation does not allow is read, and not carried over.
func TestGGUFAlignment(t *testing.T) {
	for _, align := range []int{1, 2, 4, 8192} {
		m := open(t, fmt.Sprintf("../testdata/gguf/align%d.gguf", align), nil)
		out, _ := toGGUF(t, m, nil)
		sameValues(t, out, m)
		if a := out.Files()[0].Layout.Index().Align; a != 32 {
			t.Errorf("%d became %d", align, a)
		}
	}
}
