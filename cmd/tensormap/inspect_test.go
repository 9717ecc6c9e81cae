package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// smallJSON is the contract: every byte of it.
const smallJSON = `{
  "format": "safetensors",
  "version": "",
  "files": [{"path":"FILE","size":280}],
  "flags": [],
  "metadata": {"format":"pt","note":"<a> & b"},
  "tensors": [
    {"name":"a.weight","dtype":"F32","shape":[2,3],"elements":6,"file":0,"offset":248,"stored_bytes":24,"raw_bytes":24,"encoding":"raw","zero_copy":true},
    {"name":"b/bias","dtype":"I16","shape":[4],"elements":4,"file":0,"offset":272,"stored_bytes":8,"raw_bytes":8,"encoding":"raw","zero_copy":true}
  ]
}
`

const smallTables = `file      FILE
size      280 B
format    safetensors
tensors   2
elements  10
data      32 B

NAME      DTYPE  SHAPE  ELEMENTS  SIZE  OFFSET
a.weight  F32      2×3         6  24 B     248
b/bias    I16        4         4   8 B     272

DTYPE  TENSORS  ELEMENTS  SIZE   SHARE
F32          1         6  24 B  75.0 %
I16          1         4   8 B  25.0 %
total        2        10  32 B
`

const smallMetadata = `file      FILE
size      280 B
format    safetensors
tensors   1 of 2 match *bias
elements  4
data      8 B

format  pt
note    <a> & b

NAME    DTYPE  SHAPE  ELEMENTS  SIZE  OFFSET
b/bias  I16        4         4   8 B     272

DTYPE  TENSORS  ELEMENTS  SIZE    SHARE
I16          1         4   8 B  100.0 %
`

const scaledJSON = `{
  "format": "apr2",
  "version": "2.0",
  "files": [{"path":"FILE","size":544}],
  "flags": ["ALIGNED_64"],
  "metadata": {"apr_version":"2.0.0","model_type":"test","architecture":{"n_layer":1},"quantization":{"method":"I8","scales":{"w":0.1,"v":0.0025},"zero_points":{"w":-3}}},
  "tensors": [
    {"name":"w","dtype":"I8","shape":[2,2],"elements":4,"file":0,"offset":384,"stored_bytes":4,"raw_bytes":4,"encoding":"raw","zero_copy":true,"scale":0.1,"zero_point":-3},
    {"name":"v","dtype":"I16","shape":[2],"elements":2,"file":0,"offset":448,"stored_bytes":4,"raw_bytes":4,"encoding":"raw","zero_copy":true,"scale":0.0025,"zero_point":0},
    {"name":"ids","dtype":"I64","shape":[2],"elements":2,"file":0,"offset":512,"stored_bytes":16,"raw_bytes":16,"encoding":"raw","zero_copy":true}
  ]
}
`

const emptyJSON = `{
  "format": "safetensors",
  "version": "",
  "files": [{"path":"FILE","size":10}],
  "flags": [],
  "metadata": {},
  "tensors": []
}
`

const compressedTables = `file      FILE
size      69.3 KiB (70,936 bytes)
format    apr2 2.0
flags     COMPRESSED, ALIGNED_64
tensors   4
elements  78.2K (78,197)
data      68.8 KiB

NAME      DTYPE   SHAPE  ELEMENTS      SIZE  OFFSET  NOTE
raw       F32         2         2       8 B     320
literals  U8      70000    70,000  68.6 KiB     384  lz4, 68.4 KiB raw
zeros     F32    128×64     8,192     143 B   70720  lz4, 32.0 KiB raw
short     I8          3         3       8 B   70912  lz4, 3 B raw

DTYPE  TENSORS  ELEMENTS      SIZE   SHARE
U8           1    70,000  68.6 KiB  99.8 %
F32          2     8,194     151 B   0.2 %
I8           1         3       8 B   0.0 %
total        4    78,197  68.8 KiB
`

func TestInspect(t *testing.T) {
	for _, test := range []struct {
		name, file string
		flags      []string
		want       string
	}{
		{"json", modeltest.Small(t), []string{"--json"}, smallJSON},
		{"json is whole with metadata", modeltest.Small(t), []string{"--json", "--metadata"}, smallJSON},
		{"tables", modeltest.Small(t), nil, smallTables},
		{"metadata, filter", modeltest.Small(t), []string{"--metadata", "--filter", "*bias"}, smallMetadata},
		{"no tensor, json", modeltest.WriteSafeTensors(t, "{}"), []string{"--json"}, emptyJSON},
		{"scales", apr2Fixtures + "scaled.apr", []string{"--json"}, scaledJSON},
		{"compressed", apr2Fixtures + "compressed.apr", nil, compressedTables},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := done(t, append([]string{"inspect", test.file}, test.flags...)...)
			if want := strings.ReplaceAll(test.want, "FILE", test.file); out != want {
				t.Errorf("got:\n%s\nwant:\n%s", out, want)
			}
		})
	}
}

// expected is what the fixtures' writers say of their files.
type expected struct {
	Size     uint64
	Flags    []string
	Metadata map[string]any
	Tensors  []struct {
		Name, DType, Encoding string
		Shape                 []int
		Offset                uint64
		Bytes, Stored, Raw    *uint64
		RawSHA256             string `json:"raw_sha256"`
		SHA256                string
		F32Hex                *string `json:"f32_hex"`
	}
}

// fixtures calls f with the SafeTensors and APR2 files that an independent program has
// described. TestFixtures has those of the other folders, described in another form.
func fixtures(t *testing.T, f func(t *testing.T, path string, want expected)) {
	var files []string
	for _, folder := range []string{"apr2", "safetensors"} {
		found, err := filepath.Glob("../../testdata/" + folder + "/*.json")
		if err != nil || len(found) < 4 {
			t.Fatalf("%d fixtures (%v)", len(found), err)
		}
		files = append(files, found...)
	}
	for _, description := range files {
		base := strings.TrimSuffix(description, ".json")
		for _, ext := range []string{".apr", ".safetensors"} {
			if _, err := os.Stat(base + ext); err != nil {
				continue
			}
			t.Run(filepath.Base(base+ext), func(t *testing.T) {
				text, err := os.ReadFile(description)
				if err != nil {
					t.Fatal(err)
				}
				var want expected
				if err := json.Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
				f(t, base+ext, want)
			})
		}
	}
}

func TestInspectFixtures(t *testing.T) {
	fixtures(t, func(t *testing.T, path string, want expected) {
		var got struct {
			Format   string
			Files    []inspection.FileInfo
			Flags    []string
			Metadata map[string]any
			Tensors  []struct {
				Name, DType, Encoding string
				Shape                 []int
				Offset                uint64
				Stored                uint64 `json:"stored_bytes"`
				Raw                   uint64 `json:"raw_bytes"`
			}
		}
		out := done(t, "inspect", path, "--json")
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Files) != 1 || got.Files[0].Size != want.Size {
			t.Errorf("files %v, want one of %d bytes", got.Files, want.Size)
		}
		if got.Format == "apr2" {
			slices.Sort(got.Flags)
			slices.Sort(want.Flags)
			if !slices.Equal(got.Flags, want.Flags) {
				t.Errorf("flags %q, want %q", got.Flags, want.Flags)
			}
		}
		if len(got.Metadata)+len(want.Metadata) > 0 && !reflect.DeepEqual(got.Metadata, want.Metadata) {
			t.Errorf("metadata %v, want %v", got.Metadata, want.Metadata)
		}
		if len(got.Tensors) != len(want.Tensors) {
			t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
		}
		for i, w := range want.Tensors {
			stored, raw := w.Stored, w.Raw
			if w.Bytes != nil {
				stored, raw = w.Bytes, w.Bytes
			}
			if w.Encoding == "" {
				w.Encoding = "raw"
			}
			g := got.Tensors[i]
			if g.Name != w.Name || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || g.Offset != w.Offset ||
				g.Stored != *stored || g.Raw != *raw || g.Encoding != w.Encoding {
				t.Errorf("tensor %d is %+v, want %+v", i, g, w)
			}
		}
		plain(t, done(t, "inspect", path, "--metadata"))
	})
}

// What a file says cannot steer the terminal that shows it.
func TestInspectHostileNames(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"__metadata__":{"k\u001b]0;title\u0007":"v\n\u009b31m"},`+
		`"a\u001b[2J\n\u202egnp.exe":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+
		`"":{"dtype":"U8","shape":[],"data_offsets":[4,5]}}`, 0, 0, 0, 0, 1)
	tables := done(t, "inspect", file, "--metadata")
	plain(t, tables)
	for _, want := range []string{`a\x1b[2J\n\u202egnp.exe  F32`, `k\x1b]0;title\a  v\n\u009b31m`, "\n\"\"  ", "scalar"} {
		if !strings.Contains(tables, want) {
			t.Errorf("tables lack %q:\n%s", want, tables)
		}
	}
	out := done(t, "inspect", file, "--json")
	plain(t, out)
	var got struct {
		Metadata map[string]string
		Tensors  []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tensors[0].Name != "a\x1b[2J\n\u202egnp.exe" || got.Metadata["k\x1b]0;title\a"] != "v\n\u009b31m" {
		t.Errorf("names come back as %+v", got)
	}
}

// TestInspectUnreadableScale: the table is there all the same.
func TestInspectUnreadableScale(t *testing.T) {
	config := modeltest.Write(t, "config.json", []byte(`{"quantization": {"scales": {"b/bias": 0.5}}}`))
	good := filepath.Join(t.TempDir(), "out.apr")
	done(t, "convert", modeltest.Small(t), good, "--metadata", config)
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(b, []byte(`"b/bias":0.5`), []byte(`"b/bias":"x"`), 1)
	if bytes.Equal(bad, b) {
		t.Fatalf("no scale in %q", b)
	}
	file := modeltest.Write(t, "bad.apr", bad)
	for _, flags := range [][]string{nil, {"--metadata"}} {
		r := tensormap(append([]string{"inspect", file}, flags...)...)
		if r.status != exitFailed || !strings.Contains(r.stdout, "a.weight") {
			t.Errorf("%q: %+v", flags, r)
		}
		oneLine(t, r.stderr, file+": ", "scales")
		for line := range strings.Lines(r.stdout) {
			if noted := strings.HasSuffix(line, "  scale unreadable\n"); noted != strings.HasPrefix(line, "b/bias ") {
				t.Errorf("line %q", line)
			}
		}
	}
	tensormap("inspect", file, "--json").failsWith(t, file+": ", "scales")

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if status := run(t.Context(), []string{"inspect", file}, w, io.Discard); status != exitFailed {
		t.Errorf("without a reader: status %d", status)
	}
}
