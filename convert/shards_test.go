package convert_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// toShards converts m to out.apr in a directory of its own.
func toShards(t testing.TB, m *loader.Model, opts convert.Options) (path string, r *convert.Plan) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "out.apr")
	r, err := convert.Write(context.Background(), m, path, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return path, r
}

// clean opens what must pass verify without a finding.
func clean(t testing.TB, path string) *loader.Model {
	t.Helper()
	m := open(t, path, nil)
	report, err := m.Verify(context.Background(), nil)
	if err != nil || len(report.Findings) != 0 {
		t.Errorf("%s is not in order: %v, %v", path, report, err)
	}
	return m
}

// manifestFile is a manifest as its specification has it, read without package shard.
type manifestFile struct {
	APRVersion string `json:"apr_version"`
	Sharded    bool
	ShardCount int `json:"shard_count"`
	Shards     []struct {
		File   string
		Size   int
		CRC32  string
		SHA256 string
	}
	Map      map[string]int `json:"tensor_shard_map"`
	Metadata map[string]any
}

func readManifest(t testing.TB, path string) (m manifestFile) {
	t.Helper()
	readJSON(t, path, &m)
	return m
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

const apr2Footer = 16

// sharded holds a manifest and its files against each other, and against the model that
// they come from.
func sharded(t *testing.T, path string, source *loader.Model, r *convert.Plan, most uint64) {
	t.Helper()
	m := readManifest(t, path)
	if m.APRVersion != "2.0.0" || !m.Sharded || m.ShardCount != len(m.Shards) || m.ShardCount != r.Shards || len(m.Map) != source.Len() {
		t.Errorf("manifest %+v of %+v", m, r)
	}
	names := []string{filepath.Base(path)}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := info.Size()
	for i, s := range m.Shards {
		if want := fmt.Sprintf("out-%05d-of-%05d.apr", i+1, r.Shards); s.File != want {
			t.Errorf("shard %d is %s", i, s.File)
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), s.File))
		crc, sha := fmt.Sprintf("%08x", crc32.ChecksumIEEE(b[:len(b)-apr2Footer])), fmt.Sprintf("%x", sha256.Sum256(b))
		if err != nil || s.Size != len(b) || s.CRC32 != crc || s.SHA256 != sha {
			t.Errorf("%+v has %d bytes, crc32 %s, sha256 %s; %v", s, len(b), crc, sha, err)
		}
		names = append(names, s.File)
		sum += int64(len(b))
		alone(t, filepath.Join(filepath.Dir(path), s.File), i, m, source, r, most)
	}
	slices.Sort(names)
	onlyFiles(t, filepath.Dir(path), names...)
	if r.Bytes != uint64(sum) {
		t.Errorf("Result.Bytes %d, the files have %d", r.Bytes, sum)
	}
}

// alone looks at a shard as a file of its own.
func alone(t *testing.T, path string, i int, manifest manifestFile, source *loader.Model, r *convert.Plan, most uint64) {
	t.Helper()
	m := clean(t, path)
	file := m.Files()[0]
	if !slices.Contains(file.Layout.Index().Flags, "SHARDED") {
		t.Errorf("%s: flags %v", path, file.Layout.Index().Flags)
	}
	for x := range m.Tensors() {
		if at, ok := manifest.Map[x.Name()]; !ok || at != i {
			t.Errorf("%s is in shard %d, the map says %d", x.Name(), i, at)
		}
		if file.Size > most && (m.Len() != 1 || !slices.Contains(oversized(r), x.Name())) {
			t.Errorf("%s: %d bytes, %d tensors, oversized %v", path, file.Size, m.Len(), oversized(r))
		}
		sameScale(t, x, tensor(t, source, x.Name()))
	}
	md, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		got, _ := md.Get(key)
		if want := manifest.Metadata[key]; !reflect.DeepEqual(plain(t, got), want) {
			t.Errorf("%s: %s is %v, not %v", path, key, got, want)
		}
	}
}

// plain is v as encoding/json has it.
func plain(t testing.TB, v any) (p any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sameScale(t *testing.T, a, b loader.Tensor) {
	t.Helper()
	p, scaled, err := a.Scale()
	q, wasScaled, err2 := b.Scale()
	if p != q || scaled != wasScaled || err != nil || err2 != nil {
		t.Errorf("%s: scale %v, %v, was %v, %v; %v, %v", a.Name(), p, scaled, q, wasScaled, err, err2)
	}
}

// sources are the sharded fixtures and the same models in one file.
func sources(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join("..", "testdata", "shards")
	return []string{
		filepath.Join(dir, "safetensors", "model.safetensors.index.json"), filepath.Join(dir, "safetensors", "single.safetensors"),
		filepath.Join(dir, "gguf", "model-00003-of-00004.gguf"), filepath.Join(dir, "gguf", "single.gguf"),
		filepath.Join(dir, "apr2", "model.apr"), filepath.Join(dir, "apr2", "nometadata.apr"), filepath.Join(dir, "apr2", "single.apr"),
		filepath.Join("..", "testdata", "apr2", "compressed.apr"),
	}
}

// TestShards converts whatever is sharded or not to shards of several sizes, and to one file.
func TestShards(t *testing.T) {
	for _, source := range sources(t) {
		for _, compress := range []convert.Compression{convert.NoCompression, convert.Fast, convert.AsStored} {
			if compress != convert.NoCompression && filepath.Base(source) != "compressed.apr" {
				continue
			}
			m := open(t, source, nil)
			whole, r := toShards(t, m, convert.Options{Compress: compress})
			one := clean(t, whole)
			sameTensors(t, one, m)
			if r.Shards != 0 || oversized(r) != nil {
				t.Errorf("%s: %+v", source, r)
			}
			md, err := one.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			counts := make(map[int]bool)
			for _, most := range []uint64{1, 700, 1500, 3000, 60_000} {
				if most >= one.Files()[0].Size {
					continue
				}
				path, r := toShards(t, m, convert.Options{Compress: compress, ShardBytes: most})
				if r.Shards == 0 {
					t.Fatalf("%s in %d: one file", source, most)
				}
				counts[r.Shards] = true
				sharded(t, path, m, r, most)
				out := clean(t, path)
				sameTensors(t, out, m)
				for x := range out.Tensors() {
					sameScale(t, x, tensor(t, m, x.Name()))
				}
				if got, err := out.Metadata(); err != nil || !reflect.DeepEqual(plain(t, got), plain(t, md)) {
					t.Errorf("%s in %d: metadata %v, %v, want %v", source, most, got, err, md)
				}
				if most == 1 && (r.Shards != m.Len() || len(oversized(r)) != m.Len()) {
					t.Errorf("%s: a shard for each tensor: %+v", source, r)
				}
			}
			if len(counts) < 2 && compress == convert.NoCompression {
				t.Errorf("%s: numbers of shards %v", source, counts)
			}
		}
	}
}

// TestShardsAreFull: a file holds as many tensors as it can, and a byte less makes a
// difference.
func TestShardsAreFull(t *testing.T) {
	var list []content
	for i := range 12 {
		list = append(list, counting(fmt.Sprint("tensor ", i), layout.U8, 1000))
	}
	m := openBytes(t, safeTensors(0, "{}", list...))
	size := func(path string) uint64 { return open(t, path, nil).Files()[0].Size }
	tensors := func(path string) (n []int) {
		for _, f := range open(t, path, nil).Files() {
			if k := len(f.Layout.Index().Tensors); k > 0 {
				n = append(n, k)
			}
		}
		return n
	}
	whole, _ := toShards(t, m, convert.Options{})
	if path, r := toShards(t, m, convert.Options{ShardBytes: size(whole)}); r.Shards != 0 || size(path) != size(whole) {
		t.Errorf("%+v", r)
	}
	path, r := toShards(t, m, convert.Options{ShardBytes: size(whole) - 1})
	if got := tensors(path); !slices.Equal(got, []int{11, 1}) || r.Shards != 2 {
		t.Errorf("a byte less: %v tensors", got)
	}
	for _, n := range []int{1, 4, 5} {
		first := openBytes(t, safeTensors(0, "{}", list[:n]...))
		one, _ := toShards(t, first, convert.Options{})
		most := size(one) // of n tensors and the same metadata that shards have
		path, _ := toShards(t, m, convert.Options{ShardBytes: most})
		if got := tensors(path); got[0] != n || slices.Max(got) != n {
			t.Errorf("%d bytes: %v tensors, want %d", most, got, n)
		}
		path, r := toShards(t, m, convert.Options{ShardBytes: most - 1})
		if got := tensors(path); slices.Max(got) != max(n-1, 1) || (len(oversized(r)) > 0) != (n == 1) {
			t.Errorf("%d bytes: %v tensors, want %d", most-1, got, n-1)
		}
	}
}

func TestManifestText(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting(`a "quoted" <b>`, layout.U8, 64), counting("c", layout.U8, 64)))
	path, _ := toShards(t, m, convert.Options{ShardBytes: 300})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var args []any
	for i := range 2 {
		shard, err := os.ReadFile(filepath.Join(filepath.Dir(path), fmt.Sprintf("out-%05d-of-00002.apr", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, len(shard), crc32.ChecksumIEEE(shard[:len(shard)-apr2Footer]), sha256.Sum256(shard))
	}
	if args[1] == args[4] {
		t.Error("both shards have the same CRC32")
	}
	want := fmt.Sprintf(`{
  "apr_version": "2.0.0",
  "sharded": true,
  "shard_count": 2,
  "shards": [
    {"file": "out-00001-of-00002.apr", "size": %d, "crc32": "%08x", "sha256": "%x"},
    {"file": "out-00002-of-00002.apr", "size": %d, "crc32": "%08x", "sha256": "%x"}
  ],
  "tensor_shard_map": {
    "a \"quoted\" <b>": 0,
    "c": 1
  },
  "metadata": {"apr_version":"2.0.0","model_type":"unknown","architecture":{}}
}
`, args...)
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
}

// TestShardsAsStored: what is compressed stays so, byte for byte, into shards and back.
func TestShardsAsStored(t *testing.T) {
	source := filepath.Join("..", "testdata", "apr2", "compressed.apr")
	m := open(t, source, nil)
	path, r := toShards(t, m, convert.Options{Compress: convert.AsStored, ShardBytes: 1500})
	if r.Shards < 2 {
		t.Fatalf("%+v", r)
	}
	var last, total uint64
	back, _ := toShards(t, open(t, path, nil), convert.Options{Compress: convert.AsStored, Progress: func(done, of uint64) {
		if done < last || done > of {
			t.Errorf("%d of %d after %d", done, of, last)
		}
		last, total = done, of
	}})
	if info, err := os.Stat(back); err != nil || uint64(info.Size()) != total || last != total {
		t.Errorf("progress %d of %d, %v", last, total, err)
	}
	same := 0
	out := clean(t, back)
	for x := range out.Tensors() {
		was := tensor(t, m, x.Name())
		if x.Encoding() != was.Encoding() || x.StoredBytes() != was.StoredBytes() || storedText(t, x) != storedText(t, was) {
			t.Errorf("%s: %v of %d bytes, was %v of %d", x.Name(), x.Encoding(), x.StoredBytes(), was.Encoding(), was.StoredBytes())
		}
		if x.Encoding() == layout.LZ4 {
			same++
		}
	}
	if same == 0 || same == m.Len() {
		t.Errorf("%d of %d tensors are compressed", same, m.Len())
	}
	sameTensors(t, out, m)
	quantized, _ := toShards(t, m, convert.Options{Compress: convert.AsStored, DType: layout.BF16, ShardBytes: 3000})
	for x := range clean(t, quantized).Tensors() {
		if was := tensor(t, m, x.Name()); (x.Encoding() == layout.LZ4) != (was.Encoding() == layout.LZ4 && was.DType() == x.DType()) {
			t.Errorf("%s: %v %v, was %v %v", x.Name(), x.Encoding(), x.DType(), was.Encoding(), was.DType())
		}
	}
}

func storedText(t testing.TB, x loader.Tensor) string {
	t.Helper()
	var b strings.Builder
	if _, err := x.WriteDecrypted(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestShardsEncoded re-encodes into shards, whose scales are then their own.
func TestShardsEncoded(t *testing.T) {
	m := open(t, filepath.Join("..", "testdata", "safetensors", "minilm-slice.safetensors"), nil)
	whole, _ := toShards(t, m, convert.Options{DType: layout.I8})
	path, r := toShards(t, m, convert.Options{DType: layout.I8, ShardBytes: 2000})
	if r.Shards < 2 || len(kept(r)) == 0 {
		t.Fatalf("%+v", r)
	}
	one := open(t, whole, nil)
	sharded(t, path, one, r, 2000)
	sameTensors(t, clean(t, path), one)
}

func TestShardsOfNothing(t *testing.T) {
	m := openBytes(t, safeTensors(0, `{"note":"`+strings.Repeat("x", 1000)+`"}`))
	path, r := toShards(t, m, convert.Options{ShardBytes: 500})
	if r.Shards != 1 {
		t.Fatalf("%+v", r)
	}
	sharded(t, path, m, r, 500)
	if out := clean(t, path); out.Len() != 0 {
		t.Errorf("%d tensors", out.Len())
	}
}

func TestShardNames(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64)))
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("sub", 0o777); err != nil {
		t.Fatal(err)
	}
	for out, first := range map[string]string{
		"x.apr": "x-00001-of-00002.apr", "v1.2": "v1.2-00001-of-00002.apr", "y.json": "y.json-00001-of-00002.apr",
		"sub/../z.apr": "z-00001-of-00002.apr", filepath.Join(dir, "sub", "x.apr"): "sub/x-00001-of-00002.apr",
	} {
		if _, err := convert.Write(context.Background(), m, out, &convert.Options{Format: layout.APR2, ShardBytes: 300}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(first); err != nil {
			t.Errorf("%s: %v", out, err)
		}
		sameTensors(t, clean(t, out), m)
	}
}

// snapshot is what a directory holds.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			b = []byte(err.Error()) // a directory
		}
		files[e.Name()] = string(b)
	}
	return files
}

// TestShardsReplace: a new model takes the place of an old one, of as many shards or fewer.
func TestShardsReplace(t *testing.T) {
	old := openBytes(t, safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64), counting("c", layout.U8, 64)))
	m := openBytes(t, safeTensors(0, "{}", counting("x", layout.U8, 64), counting("y", layout.F32, 16), counting("z", layout.U8, 60)))
	path := filepath.Join(t.TempDir(), "out.apr")
	for i, step := range []struct {
		from   *loader.Model
		most   uint64
		shards int
		files  int
	}{{old, 300, 3, 4}, {m, 300, 3, 4}, {old, 400, 2, 6}, {m, 0, 0, 6}, {old, 300, 3, 6}, {m, 400, 2, 6}} {
		r, err := convert.Write(context.Background(), step.from, path, &convert.Options{ShardBytes: step.most})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(snapshot(t, filepath.Dir(path))); r.Shards != step.shards || n != step.files {
			t.Errorf("step %d: %d shards, %d files", i, r.Shards, n)
		}
		sameTensors(t, clean(t, path), step.from)
	}
}

// TestShardsRefuse: where a file cannot be written, none is.
func TestShardsRefuse(t *testing.T) {
	two := safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64))
	second := "out-00002-of-00002.apr"
	for name, prepare := range map[string]func(t *testing.T, dir string) error{
		"a directory":         func(t *testing.T, dir string) error { return os.Mkdir(filepath.Join(dir, second), 0o777) },
		"manifest, directory": func(t *testing.T, dir string) error { return os.Mkdir(filepath.Join(dir, "out.apr"), 0o777) },
		"a link":              func(t *testing.T, dir string) error { return os.Symlink("elsewhere", filepath.Join(dir, second)) },
	} {
		dir := t.TempDir()
		if err := prepare(t, dir); err != nil {
			t.Skip(err)
		}
		before := snapshot(t, dir)
		_, err := convert.Write(context.Background(), openBytes(t, two), filepath.Join(dir, "out.apr"), &convert.Options{ShardBytes: 300})
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		if after := snapshot(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: %v, was %v", name, after, before)
		}
	}
	if _, err := convert.Write(context.Background(), openBytes(t, two), filepath.Join(t.TempDir(), "no", "out.apr"), &convert.Options{ShardBytes: 300}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestShardsOntoSource: the model that is read is not replaced, by whatever name it goes.
func TestShardsOntoSource(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64), counting("c", layout.U8, 64)))
	path, r := toShards(t, m, convert.Options{ShardBytes: 300})
	dir := filepath.Dir(path)
	hard := filepath.Join(dir, "hard.apr")
	if err := os.Link(filepath.Join(dir, "out-00003-of-00003.apr"), filepath.Join(dir, "hard-00003-of-00003.apr")); err != nil {
		t.Skip(err)
	}
	source := open(t, path, nil) // once its links are what they will be
	before := snapshot(t, dir)
	for _, to := range []string{path, hard} {
		_, err := convert.Write(context.Background(), source, to, &convert.Options{ShardBytes: 300})
		if err == nil || !strings.Contains(err.Error(), "is a file that is being read") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if after := snapshot(t, dir); !maps.Equal(before, after) || r.Shards != 3 {
		t.Errorf("%v, was %v", after, before)
	}
}

// TestShardsCancelled: at whatever point, what was there before is still there.
func TestShardsCancelled(t *testing.T) {
	var list []content
	for i := range 6 {
		list = append(list, counting(fmt.Sprint(i), layout.F32, 100))
	}
	old := openBytes(t, safeTensors(0, "{}", list[:4]...))
	m := openBytes(t, safeTensors(0, "{}", list...))
	path, _ := toShards(t, old, convert.Options{ShardBytes: 1200})
	before := snapshot(t, filepath.Dir(path))
	calls := 0
	for at := 0; ; at++ {
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		_, err := convert.Write(ctx, m, path, &convert.Options{ShardBytes: 1200, Progress: func(uint64, uint64) {
			if n++; n > at {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			calls = at
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if after := snapshot(t, filepath.Dir(path)); !maps.Equal(before, after) {
			t.Errorf("cancelled at %d: %d files, were %d", at, len(after), len(before))
		}
	}
	if calls != len(list) {
		t.Errorf("cancelled at %d points, of %d tensors", calls, len(list))
	}
	sameTensors(t, clean(t, path), m)
}

func TestTooManyShards(t *testing.T) {
	if testmode.Brief() {
		t.Skip("a hundred thousand tensors, one goroutine")
	}
	var list []content
	for i := range 100_000 {
		list = append(list, content{fmt.Sprint(i), layout.U8, []int{1}, []byte{1}})
	}
	m := openBytes(t, safeTensors(0, "{}", list...))
	dir := t.TempDir()
	if _, err := convert.Write(context.Background(), m, filepath.Join(dir, "x.apr"), &convert.Options{ShardBytes: 1}); !errors.Is(err, layout.ErrLimit) {
		t.Error(err)
	}
	onlyFiles(t, dir)
}

// TestShardProgress: one count over all shards, to the end.
func TestShardProgress(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.F32, 1<<20), counting("b", layout.U8, 5), counting("c", layout.F32, 1<<22)))
	last, all := uint64(0), uint64(0)
	_, r := toShards(t, m, convert.Options{ShardBytes: 1 << 20, Progress: func(done, total uint64) {
		if done < last || done > total || all != 0 && total != all {
			t.Errorf("%d of %d after %d of %d", done, total, last, all)
		}
		last, all = done, total
	}})
	if last != all || all > r.Bytes || all < 20<<20 || !slices.Equal(oversized(r), []string{"a", "c"}) || r.Shards != 3 {
		t.Errorf("%d of %d, %+v", last, all, r)
	}
}

// TestShardsLeft: fewer shards than before leave some, which are named and are no model.
func TestShardsLeft(t *testing.T) {
	var list []content
	for i := range 4 {
		list = append(list, counting(fmt.Sprint(i), layout.U8, 64))
	}
	m := openBytes(t, safeTensors(0, "{}", list...))
	dir := t.TempDir()
	path := filepath.Join(dir, "out.apr")
	var left []string
	for _, most := range []uint64{300, 450, 1 << 20} {
		r, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: most})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(left)
		if !slices.Equal(r.Left, left) || r.Removed != "" {
			t.Errorf("%d: %v, want %v", most, r.Left, left)
		}
		for i := range r.Shards {
			left = append(left, filepath.Join(dir, fmt.Sprintf("out-%05d-of-%05d.apr", i+1, r.Shards)))
		}
		sameTensors(t, clean(t, dir), m)
	}
	if len(left) != 4+2 {
		t.Errorf("%v", left)
	}
}
