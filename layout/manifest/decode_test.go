package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

const (
	oneShard  = `"shard_count":1,"shards":[{"file":"a","size":1}]`
	twoShards = `"shard_count":2,"shards":[{"file":"a","size":1},{"file":"b","size":2,"crc32":"cbf43926"}]`
)

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name, doc, field string
		want             error
		says             string
	}{
		{"empty", ``, "manifest", layout.ErrInvalid, "end of the JSON"},
		{"no object", `[1]`, "manifest", layout.ErrInvalid, "object"},
		{"cut", `{"shards":[¶`, "manifest", layout.ErrInvalid, "end of the JSON"},
		{"trailing", `{"shards":[]} ¶x`, "manifest", layout.ErrInvalid, "after"},
		{"duplicate key", `{"shards":[],¶"shards":[]}`, "manifest", layout.ErrDuplicate, "shards"},
		{"not UTF-8", "{\"¶\xff\":1}", "manifest", layout.ErrInvalid, "UTF-8"},
		{"nested", `{"weight_map":` + strings.Repeat("[", 63) + "¶[", "manifest", layout.ErrLimit, "64"},

		{"no keys", `{}`, "manifest", layout.ErrUnsupported, "without keys"},
		{"a config", `{"model_type":"bert","a":1,"b":2,"c":3,"d":4}`, "manifest", layout.ErrUnsupported, `"model_type", "a", "b", "c", …`},
		{"both", `{"shards":[],"weight_map":{}}`, "manifest", layout.ErrInvalid, "APR2 manifest and of a SafeTensors index"},

		{"no shards key", `¶{"shard_count":0,"tensor_shard_map":{}}`, "shards", layout.ErrInvalid, "nothing"},
		{"shards of text", `{"shards":[¶"a"]}`, "shards", layout.ErrInvalid, `shard 0: the text "a"`},
		{"shards an object", `{"shards": ¶{}}`, "shards", layout.ErrInvalid, "an object"},
		{"no shards", `{"shards" :¶[ ],"shard_count":0}`, "shards", layout.ErrInvalid, "no shards"},
		{"a null shard", `{"shards":[{"file":"a","size":1},¶null]}`, "shards", layout.ErrInvalid, "shard 1: nothing"},
		{"no file", `{"shards":[¶{"size":1}]}`, "shards.file", layout.ErrInvalid, "shard 0: nothing"},
		{"file a number", `{"shards":[{"size":1,"file": ¶7}]}`, "shards.file", layout.ErrInvalid, `"7"`},
		{"no size", `{"shards":[¶{"file":"a"}]}`, "shards.size", layout.ErrInvalid, "nothing"},
		{"negative size", `{"shards":[{"file":"a","size":¶-1}]}`, "shards.size", layout.ErrInvalid, `"-1"`},
		{"fraction", `{"shards":[{"file":"a","size":¶1.0}]}`, "shards.size", layout.ErrInvalid, `"1.0"`},
		{"size of 2^64", `{"shards":[{"file":"a","size":¶18446744073709551616}]}`, "shards.size", layout.ErrInvalid, "18446744073709551616"},
		{"size of 10^999", `{"shards":[{"file":"a","size":¶1e999}]}`, "shards.size", layout.ErrInvalid, "1e999"},
		{"crc a number", `{"shards":[{"file":"a","size":1,"crc32":¶7}]}`, "shards.crc32", layout.ErrInvalid, `"7"`},
		{"digest a number", `{"shards":[{"file":"a","size":1,"sha256":¶7}]}`, "shards.sha256", layout.ErrInvalid, `"7"`},
		{"same file", `{"shards":[{"file":"a","size":1},{"file":¶"\u0061","size":1}]}`, "shards.file", layout.ErrDuplicate, `0 and 1 are both "a"`},
		{"no count", `¶{"shards":[{"file":"a","size":1}]}`, "shard_count", layout.ErrInvalid, "nothing"},
		{"count 0", `{"shard_count":¶0,"shards":[{"file":"a","size":1}]}`, "shard_count", layout.ErrInvalid, "0, but shards lists 1"},
		{"count 2^63", `{"shards":[{"file":"a","size":1}],"shard_count":¶9223372036854775808}`, "shard_count", layout.ErrInvalid, "9223372036854775808"},
		{"count of text", `{"shards":[{"file":"a","size":1}],"shard_count":¶"1"}`, "shard_count", layout.ErrInvalid, "text"},
		{"no map", `¶{` + oneShard + `}`, "tensor_shard_map", layout.ErrInvalid, "nothing"},
		{"map a list", `{` + oneShard + `,"tensor_shard_map":¶[0]}`, "tensor_shard_map", layout.ErrInvalid, "a list"},
		{"shard past the end", `{` + twoShards + `,"tensor_shard_map":{"x":1,"y":¶2}}`, "tensor_shard_map", layout.ErrInvalid, `tensor "y": shard 2 of 2`},
		{"shard of 2^63", `{` + twoShards + `,"tensor_shard_map":{"y":¶9223372036854775808}}`, "tensor_shard_map", layout.ErrInvalid, "9223372036854775808 of 2"},
		{"negative shard", `{` + twoShards + `,"tensor_shard_map":{"y":¶-1}}`, "tensor_shard_map", layout.ErrInvalid, `tensor "y": "-1"`},
		{"shard by name", `{` + twoShards + `,"tensor_shard_map":{"y":¶"b"}}`, "tensor_shard_map", layout.ErrInvalid, `the text "b"`},
		{"tensor twice", `{` + twoShards + `,"tensor_shard_map":{"y":0,¶"y":1}}`, "manifest", layout.ErrDuplicate, `"y"`},
		{"metadata of text", `{` + oneShard + `,"tensor_shard_map":{},"metadata":¶"x"}`, "metadata", layout.ErrInvalid, "text"},

		{"no weights", `{"weight_map":¶{}}`, "weight_map", layout.ErrInvalid, "no tensors"},
		{"weight map a list", `{"weight_map":¶[]}`, "weight_map", layout.ErrInvalid, "a list"},
		{"weight in a number", `{"weight_map":{"x":"a","y":¶0}}`, "weight_map", layout.ErrInvalid, `tensor "y": "0"`},
		{"weight nowhere", `{"weight_map":{"y":¶null}}`, "weight_map", layout.ErrInvalid, `tensor "y": nothing`},
		{"index metadata", `{"weight_map":{"x":"a"},"metadata":¶[]}`, "metadata", layout.ErrInvalid, "a list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc, at := modeltest.Marked(tt.doc)
			m, err := manifest.Decode(doc, nil)
			modeltest.CheckManifestError(t, err, at, tt.field, tt.want, tt.says)
			if m != nil {
				t.Error("a manifest and an error")
			}
		})
	}
}

// TestNames: the names of shards are those of files in the manifest's directory.
func TestNames(t *testing.T) {
	bad := []string{"", ".", "..", "../x", "/etc/passwd", "a/b", "a/../b", "./a", `..\x`, `C:\x`, `\\host\share`, "a\x00b", "a/", strings.Repeat("a", 1021)}
	good := []string{"a", strings.Repeat("重", 255), "model-00001-of-00002.apr", "größe 重み", ".hidden", "...", "a b", "-rf", "a\nb", "~"}
	if runtime.GOOS == "windows" {
		bad = append(bad, "NUL", "com1", "a:b")
	}
	for _, format := range []string{`{"shard_count":1,"shards":[{"file":¶%s,"size":1}],"tensor_shard_map":{}}`, `{"weight_map":{"x":¶%s}}`} {
		for _, name := range slices.Concat(bad, good) {
			doc, at := modeltest.Marked(fmt.Sprintf(format, quoteJSON(name)))
			m, err := manifest.Decode(doc, nil)
			if slices.Contains(good, name) {
				if err != nil || m.Shards[0].Name != name {
					t.Errorf("%q: %v", name, err)
				}
				continue
			}
			field := "shards.file"
			if strings.Contains(format, "weight_map") {
				field = "weight_map"
			}
			modeltest.CheckManifestError(t, err, at, field, layout.ErrInvalid, layout.Quote(name))
		}
	}
}

func quoteJSON(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, "\x00", `\u0000`, "\n", `\n`).Replace(s) + `"`
}

func TestDecodeAPR2(t *testing.T) {
	m := modeltest.DecodeManifest(t, ` {"apr_version":"2.0.0","sharded":true,`+twoShards+`,"tensor_shard_map":{"x":1,"y":0},"metadata":{"k":"v"}}`)
	want := []manifest.Shard{{Name: "a", Size: 1, Sized: true}, {Name: "b", Size: 2, Sized: true, CRC32: "cbf43926"}}
	if !slices.Equal(m.Shards, want) || m.Of != layout.APR2 || m.FollowLinks || !m.Complete() {
		t.Errorf("%+v", m)
	}
	if ix := m.Index(); ix.Format != layout.Manifest || len(ix.Tensors) != 0 || ix.Find("x") != -1 || len(ix.Sections) != 1 {
		t.Errorf("%+v", ix)
	}
	if md, err := m.Metadata(nil); err != nil || len(md) != 1 || md[0].Value != "v" {
		t.Errorf("%v, %v", md, err)
	}
	if md, err := m.Describe(layout.Metadata{{Key: "other", Value: 1}}); err != nil || len(md) != 1 || md[0].Key != "k" {
		t.Errorf("the manifest's metadata is not all: %v", md)
	}
}

func TestDecodeIndex(t *testing.T) {
	m := modeltest.DecodeManifest(t, `{"metadata":{"total_size":12,"format":"np"},"weight_map":{"x":"b","y":"a","z":"b"}}`)
	if len(m.Shards) != 2 || m.Shards[0].Name != "a" || m.Shards[1].Name != "b" || m.Shards[0].Sized || m.Of != layout.SafeTensors || !m.FollowLinks || m.Complete() {
		t.Errorf("%+v", m)
	}
	first := layout.Metadata{{Key: "format", Value: "pt"}, {Key: "by", Value: "me"}}
	md, err := m.Describe(first)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := md.MarshalJSON(); err != nil || string(text) != `{"format":"np","by":"me","total_size":12}` {
		t.Errorf("%s, %v", text, err)
	}
	if first[0].Value != "pt" || len(first) != 2 {
		t.Errorf("the shard's metadata has changed: %v", first)
	}
}

func TestLimits(t *testing.T) {
	doc := layout.Bytes(`{"weight_map":{"x":"a","y":"a"}}`)
	for _, tt := range []struct {
		lim  layout.Limits
		want error
	}{
		{layout.Limits{}, nil},
		{layout.Limits{Tensors: 1}, layout.ErrLimit},
		{layout.Limits{HeaderBytes: 31}, layout.ErrLimit},
		{layout.Limits{Depth: 1}, layout.ErrLimit},
	} {
		if _, err := manifest.Decode(doc, &tt.lim); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt.lim, err)
		}
	}
	if _, err := manifest.Decode(huge{}, nil); !errors.Is(err, layout.ErrLimit) {
		t.Errorf("a huge file: %v", err)
	}
}

// huge is a file that must not be read.
type huge struct{}

func (huge) Size() uint64                        { return 1 << 62 }
func (huge) Slice(off, n uint64) ([]byte, error) { panic("read") }

// TestTruncated: every prefix of a manifest is an error.
func TestTruncated(t *testing.T) {
	testmode.Sequential(t)
	for _, path := range fixtures(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n := range strings.TrimSpace(string(b)) {
			if _, err := manifest.Decode(layout.Bytes(b[:n]), nil); err == nil {
				t.Errorf("%s: the first %d bytes are a manifest", path, n)
			}
		}
	}
}

func fixtures(t testing.TB) []string {
	t.Helper()
	apr2, _ := filepath.Glob("../../testdata/shards/apr2/*[a-z].apr")
	index, _ := filepath.Glob("../../testdata/shards/safetensors/*.index.json")
	apr2 = slices.DeleteFunc(apr2, func(path string) bool { return strings.HasSuffix(path, "single.apr") || strings.Contains(path, "-of-") })
	if len(apr2) < 10 || len(index) != 1 {
		t.Fatalf("fixtures: %d, %d", len(apr2), len(index))
	}
	return append(apr2, index...)
}

// TestManyTensors: neither time nor memory grows faster than the map, and a lookup of what is
// wrong costs no more than reading it.
func TestManyTensors(t *testing.T) {
	testmode.Sequential(t)
	const tensors, shards = 200_000, 1000
	apr2, index := manyTensors(tensors, shards)
	for name, doc := range map[string]layout.Bytes{"apr2": apr2, "index": index} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := manifest.Decode(doc, nil)
		runtime.ReadMemStats(&after)
		if err != nil || len(m.Shards) != shards {
			t.Fatal(err)
		}
		if took, limit := after.TotalAlloc-before.TotalAlloc, uint64(8*len(doc)); took > limit {
			t.Errorf("%s: %d bytes taken for %d", name, took, len(doc))
		}
	}
}

// TestManyShards: shards that are too many for the text that names them are refused before they take memory.
func TestManyShards(t *testing.T) {
	testmode.Sequential(t)
	var list, names strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&list, `{"file":"%x","size":1},`, i)
		fmt.Fprintf(&names, `"%x":"%[1]x",`, i)
	}
	for _, doc := range []string{
		`{"shard_count":1,"tensor_shard_map":{"a":0},"shards":[` + strings.TrimSuffix(list.String(), ",") + `]}`,
		`{"weight_map":{` + strings.TrimSuffix(names.String(), ",") + `}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := manifest.Decode(layout.Bytes(doc), nil)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, layout.ErrLimit) || took > 8*uint64(len(doc))+64<<20 { // garbage included
			t.Errorf("%d bytes taken for %d: %v", took, len(doc), err)
		}
	}
}

func manyTensors(tensors, shards int) (apr2, index layout.Bytes) {
	var list, numbers, names strings.Builder
	comma := ""
	for i := range shards {
		fmt.Fprintf(&list, `%s{"file":"model-%05d-of-%05d.apr","size":1000,"crc32":"00000000"}`, comma, i+1, shards)
		comma = ","
	}
	comma = ""
	for i := range tensors {
		fmt.Fprintf(&numbers, `%s"model.layers.%d.weight":%d`, comma, i, i*shards/tensors)
		fmt.Fprintf(&names, `%s"model.layers.%d.weight":"model-%05d-of-%05d.safetensors"`, comma, i, i*shards/tensors+1, shards)
		comma = ","
	}
	apr2 = fmt.Appendf(nil, `{"shard_count":%d,"shards":[%s],"tensor_shard_map":{%s}}`, shards, &list, &numbers)
	return apr2, fmt.Appendf(nil, `{"weight_map":{%s}}`, &names)
}

func BenchmarkDecode(b *testing.B) {
	apr2, index := manyTensors(200_000, 1000)
	for _, bb := range []struct {
		name string
		doc  layout.Bytes
	}{{"apr2", apr2}, {"safetensors", index}} {
		b.Run("of="+bb.name+"/tensors=200000/shards=1000", func(b *testing.B) {
			b.SetBytes(int64(len(bb.doc)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := manifest.Decode(bb.doc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
