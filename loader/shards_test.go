package loader_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// sharded are models of several files, each with a file of the same tensors.
var sharded = []struct{ path, single string }{
	{"safetensors/model.safetensors.index.json", "safetensors/single.safetensors"},
	{"apr2/model.apr", "apr2/single.apr"},
	{"gguf/model-00001-of-00004.gguf", "gguf/single.gguf"},
	{"gguf/model-00003-of-00004.gguf", "gguf/single.gguf"},
}

// TestShardsAreOneModel: a model in four files gives what the same model gives in one.
func TestShardsAreOneModel(t *testing.T) {
	for _, s := range sharded {
		single := openPath(t, filepath.Join(testdata, "shards", s.single), nil)
		for _, w := range diskWays {
			t.Run(s.path+"/"+w.name, func(t *testing.T) {
				m, err := w.open(t, filepath.Join(testdata, "shards", s.path), nil)
				m = modeltest.Opened(t, m, err)
				if m.Len() != single.Len() || m.Format() != single.Format() {
					t.Fatalf("%d tensors of %v, want %d of %v", m.Len(), m.Format(), single.Len(), single.Format())
				}
				files := make(map[int]bool)
				for want := range single.Tensors() {
					x := tensor(t, m, want.Name())
					sameTensor(t, x, want)
					f := m.Files()[x.File()]
					all := must(os.ReadFile(f.Path))(t)
					b, err := x.Bytes()
					if err != nil || uint64(len(all)) != f.Size || !bytes.Equal(all[x.Offset():][:x.StoredBytes()], b) {
						t.Errorf("%s is not at %d of %s: %v", x.Name(), x.Offset(), f.Path, err)
					}
					if f.Layout.Index().Find(x.Name()) < 0 {
						t.Errorf("%s is not in the index of its own file", x.Name())
					}
					files[x.File()] = true
				}
				if len(files) != 4 {
					t.Errorf("tensors of %d files", len(files))
				}
				if !slices.Equal(slices.Sorted(slices.Values(names(m.Tensors()))), slices.Sorted(slices.Values(names(single.Tensors())))) {
					t.Error("other names")
				}
			})
		}
	}
}

// sameTensor compares all that two tensors can be asked for, but where they are.
func sameTensor(t *testing.T, x, want loader.Tensor) {
	t.Helper()
	b, err := x.Bytes()
	wb, werr := want.Bytes()
	if got := (modeltest.Tensor{Name: x.Name(), DType: x.DType(), Shape: x.Shape(), Data: b}); err != nil || werr != nil || !got.Equal(modeltest.Tensor{Name: want.Name(), DType: want.DType(), Shape: want.Shape(), Data: wb}) {
		t.Errorf("%s: %v, %v", want.Name(), err, werr)
	}
	q, scaled, err := x.Scale()
	wq, wscaled, werr := want.Scale()
	if q != wq || scaled != wscaled || err != nil || werr != nil {
		t.Errorf("%s: scale %v, %v, %v; want %v", want.Name(), q, scaled, err, wq)
	}
	values, err := x.Float32s()
	wvalues, werr := want.Float32s()
	if err != nil || werr != nil || !slices.Equal(values, wvalues) {
		t.Errorf("%s: other values, %v, %v", want.Name(), err, werr)
	}
	read := make([]float32, x.Elements())
	if err := x.Dequantize(read); err != nil || !slices.Equal(read, wvalues) {
		t.Errorf("%s: dequantized to other values, %v", want.Name(), err)
	}
	var written bytes.Buffer
	if n, err := x.WriteTo(&written); err != nil || n != int64(len(wb)) || !bytes.Equal(written.Bytes(), wb) {
		t.Errorf("%s: wrote %d bytes, %v", want.Name(), n, err)
	}
}

func TestShardFiles(t *testing.T) {
	for _, s := range sharded {
		m := openPath(t, filepath.Join(testdata, "shards", s.path), nil)
		files := m.Files()
		if strings.Contains(s.path, "gguf") {
			if len(files) != 4 {
				t.Errorf("%s: %d files", s.path, len(files))
			}
		} else if last := files[len(files)-1]; len(files) != 5 || last.Path != filepath.Join(testdata, "shards", s.path) || last.Layout.Index().Format != layout.Manifest {
			t.Errorf("%s: %+v", s.path, files)
		} else if is := fmt.Sprintf("%T", last.Layout); is != "*manifest.File" {
			t.Errorf("%s: the manifest is a %s", s.path, is)
		}
		for i, f := range files[:4] {
			if want := fmt.Sprintf("model-%05d-of-00004%s", i+1, filepath.Ext(f.Path)); f.Path != filepath.Join(filepath.Dir(filepath.Join(testdata, "shards", s.path)), want) {
				t.Errorf("%s: file %d is %s", s.path, i, f.Path)
			}
		}
		if _, err := m.Tensor("nothing"); !errors.Is(err, loader.ErrNotFound) || !strings.HasPrefix(err.Error(), filepath.Join(testdata, "shards", s.path)+": ") {
			t.Errorf("%s: %v", s.path, err)
		}
	}
}

// writeShards writes an APR2 model of one shard for each tensor, and returns the path of its manifest. edit may change the manifest.
func writeShards(t testing.TB, dir string, edit func(*manifest), tensors ...modeltest.Tensor) string {
	t.Helper()
	m := manifest{Version: "2.0.0", Sharded: true, Count: len(tensors), Map: map[string]int{}}
	for i, c := range tensors {
		b := modeltest.APR2Model(t, nil, c)
		name := fmt.Sprintf("model-%05d-of-%05d.apr", i+1, len(tensors))
		modeltest.WriteTo(t, filepath.Join(dir, name), b)
		m.Shards = append(m.Shards, manifestShard{File: name, Size: len(b), CRC32: fmt.Sprintf("%08x", crc32.ChecksumIEEE(b[:len(b)-apr2Footer]))})
		m.Map[c.Name] = i
	}
	if edit != nil {
		edit(&m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.apr")
	modeltest.WriteTo(t, path, text)
	return path
}

type manifest struct {
	Version  string          `json:"apr_version"`
	Sharded  bool            `json:"sharded"`
	Count    int             `json:"shard_count"`
	Shards   []manifestShard `json:"shards"`
	Map      map[string]int  `json:"tensor_shard_map"`
	Metadata any             `json:"metadata,omitempty"`
}

type manifestShard struct {
	File  string `json:"file"`
	Size  int    `json:"size"`
	CRC32 string `json:"crc32"`
	// SHA256 is left out unless a test asks for it: with it a file is read by one worker.
	SHA256 string `json:"sha256,omitempty"`
}

// describe makes m say what the shards in dir are.
func (m *manifest) describe(t testing.TB, dir string) {
	t.Helper()
	for i := range m.Shards {
		s := &m.Shards[i]
		b, err := os.ReadFile(filepath.Join(dir, s.File))
		if err != nil {
			t.Fatal(err)
		}
		s.Size, s.CRC32, s.SHA256 = len(b), fmt.Sprintf("%08x", crc32.ChecksumIEEE(b[:len(b)-apr2Footer])), fmt.Sprintf("%x", sha256.Sum256(b))
	}
}

func TestOpenShardErrors(t *testing.T) {
	oneFile := "are one file"
	if runtime.GOOS == "windows" { // where names of files lead to no numbers: the tensors are found twice
		oneFile = "duplicate"
	}
	other := modeltest.SafeTensors(modeltest.Random("f32", layout.F32, 3, 4))
	tests := []struct {
		name  string
		edit  func(*manifest)
		spoil func(dir string) error // after all has been written
		want  error
		says  []string
	}{
		{"missing", nil, func(dir string) error { return os.Remove(filepath.Join(dir, "model-00002-of-00003.apr")) },
			fs.ErrNotExist, []string{"shards.file", `"model-00002-of-00003.apr"`}},
		{"truncated", nil, func(dir string) error { return os.Truncate(filepath.Join(dir, "model-00003-of-00003.apr"), 9) },
			layout.ErrInvalid, []string{"shards.size", `"model-00003-of-00003.apr" has 9 bytes`}},
		{"damaged", func(m *manifest) { m.Shards[1].Size = 9 }, func(dir string) error {
			return os.Truncate(filepath.Join(dir, "model-00002-of-00003.apr"), 9)
		}, layout.ErrTruncated, []string{"model-00002-of-00003.apr: apr2: "}},
		{"another format", func(m *manifest) { m.Shards[1] = manifestShard{File: "x", Size: len(other)} }, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "x"), other, 0o666)
		}, layout.ErrInvalid, []string{"shards.file", `"x" is of format safetensors, not apr2`}},
		{"no format", func(m *manifest) { m.Shards[1] = manifestShard{File: "x", Size: 5} }, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "x"), []byte("\x01\x02\x03\x04\x05"), 0o666)
		}, layout.ErrFormat, []string{"x: unknown: ", "01 02"}},
		{"a directory", func(m *manifest) { m.Shards[1].File = "d" }, func(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o777) },
			nil, []string{"shards.file", "d", "not a regular file"}},
		{"twice under two names", func(m *manifest) {
			m.Shards[1] = m.Shards[0]
			m.Shards[1].File = "again"
		}, func(dir string) error {
			return os.Link(filepath.Join(dir, "model-00001-of-00003.apr"), filepath.Join(dir, "again"))
		}, layout.ErrDuplicate, []string{oneFile, `"model-00001-of-00003.apr"`, `"again"`}},
		{"moved", func(m *manifest) { m.Map["i8"] = 2 }, nil, layout.ErrInvalid, []string{`tensor "i8"`, "00003-of", "00002-of"}},
		{"absent", func(m *manifest) { m.Map["x"] = 2 }, nil, layout.ErrNotFound, []string{`tensor "x"`, "00003-of"}},
		{"several", func(m *manifest) { m.Shards[1].File, m.Shards[2].File = "no", "nor" }, nil, fs.ErrNotExist, []string{`"no"`}},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		path := writeShards(t, dir, tt.edit, tensorsOf("three")...)
		if tt.spoil != nil {
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range diskWays {
			m, err := w.open(t, path, nil)
			if m != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("%s/%s: %v, %v", tt.name, w.name, m, err)
				continue
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%s/%s: %v does not say %s", tt.name, w.name, err, says)
				}
			}
		}
	}
}

// TestFirstShardToFailIsNamed, although several are opened at a time.
func TestFirstShardToFailIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := writeShards(t, dir, func(m *manifest) {
		for i := 4; i < len(m.Shards); i++ {
			if i%2 == 0 {
				m.Shards[i].File = fmt.Sprint("missing", i) // found out sooner
			} else {
				m.Shards[i].Size++
			}
		}
	}, numbered(12, 1)...)
	for range 100 {
		if _, err := loader.Open(path, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `"missing4"`) {
			t.Fatal(err)
		}
	}
}

// TestShardsInMemory: memory has no other files.
func TestShardsInMemory(t *testing.T) {
	for _, s := range sharded {
		b, err := os.ReadFile(filepath.Join(testdata, "shards", s.path))
		if err != nil {
			t.Fatal(err)
		}
		_, err = loader.OpenBytes(b, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "memory: ") {
			t.Errorf("%s: %v", s.path, err)
		}
		if !strings.Contains(s.path, "gguf") && (!errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), "by its path")) {
			t.Errorf("%s: %v", s.path, err)
		}
	}
}

func TestOpenSplitErrors(t *testing.T) {
	part := func(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("model-%05d-of-00004.gguf", i)) }
	tests := []struct {
		name  string
		spoil func(dir string) error
		says  []string
	}{
		{"missing", func(dir string) error { return os.Remove(part(dir, 3)) }, []string{"split.count", "shard 3 of 4", `"model-00003-of-00004.gguf"`}},
		{"truncated", func(dir string) error { return os.Truncate(part(dir, 4), 30) }, []string{"model-00004-of-00004.gguf: gguf: "}},
		{"twice", func(dir string) error {
			return errors.Join(os.Remove(part(dir, 4)), os.Link(part(dir, 2), part(dir, 4)))
		}, []string{"model-00004-of-00004.gguf: ", "split.no"}},
		{"another model", func(dir string) error {
			return errors.Join(os.Remove(part(dir, 4)), os.Link(filepath.Join(dir, "single.gguf"), part(dir, 4)))
		}, []string{"model-00004-of-00004.gguf: ", "split.count"}},
		{"no GGUF", func(dir string) error {
			return os.WriteFile(part(dir, 2), modeltest.SafeTensors(tensorsOf("three")[:1]...), 0o666)
		}, []string{"model-00002-of-00004.gguf: ", "split.count"}},
	}
	for _, tt := range tests {
		dir := copyDir(t, filepath.Join(testdata, "shards", "gguf"))
		if err := tt.spoil(dir); err != nil {
			t.Fatal(err)
		}
		for _, w := range diskWays {
			m, err := w.open(t, part(dir, 1), nil)
			if m != nil || err == nil || !strings.HasPrefix(err.Error(), part(dir, 1)+": ") {
				t.Errorf("%s/%s: %v, %v", tt.name, w.name, m, err)
				continue
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%s/%s: %v does not say %s", tt.name, w.name, err, says)
				}
			}
		}
	}
	dir := copyDir(t, filepath.Join(testdata, "shards", "gguf"))
	if err := os.Rename(part(dir, 1), filepath.Join(dir, "first.gguf")); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Open(filepath.Join(dir, "first.gguf"), nil); err == nil || !strings.Contains(err.Error(), "-00001-of-00004.gguf") {
		t.Errorf("a part under another name: %v", err)
	}
}

// TestShardsChangeAfterOpen: a shard that is first touched now must be the one whose index
// was read. What failed works again once the file is back.
func TestShardsChangeAfterOpen(t *testing.T) {
	shardPath := func(dir string) string { return filepath.Join(dir, "model-00002-of-00003.apr") }
	tests := []struct {
		name   string
		change func(path string, b []byte) error
		want   error
	}{
		{"gone", func(path string, _ []byte) error { return os.Remove(path) }, fs.ErrNotExist},
		{"longer", func(path string, b []byte) error { return os.Truncate(path, int64(len(b)+1)) }, mmapio.ErrChanged},
		{"shorter", func(path string, b []byte) error { return os.Truncate(path, int64(len(b)-1)) }, mmapio.ErrChanged},
		{"empty", func(path string, _ []byte) error { return os.Truncate(path, 0) }, mmapio.ErrChanged},
		{"another of the same size", func(path string, b []byte) error {
			return errors.Join(os.WriteFile(path+"x", b, 0o666), os.Rename(path+"x", path))
		}, mmapio.ErrChanged},
		{"written to", func(path string, _ []byte) error { return os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)) }, mmapio.ErrChanged},
		{"a directory", func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o777)) }, mmapio.ErrChanged},
	}
	for _, tt := range tests {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			dir := t.TempDir()
			tensors := tensorsOf("three")
			m := openPath(t, writeShards(t, dir, nil, tensors...), opts)
			b, err := os.ReadFile(shardPath(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.change(shardPath(dir), b); err != nil {
				t.Fatal(err)
			}
			x := tensor(t, m, "i8")
			for _, call := range []string{"Bytes", "Dequantize", "Float32s", "DequantizeRange", "WriteTo", "Scale"} {
				if err := tensorCalls[call](x); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), "model-00002-of-00003.apr") {
					t.Errorf("%s, %+v: %s: %v", tt.name, opts, call, err)
				}
			}
			if _, err := m.Verify(context.Background(), nil); !errors.Is(err, tt.want) {
				t.Errorf("%s, %+v: Verify: %v", tt.name, opts, err)
			}
			for _, c := range []modeltest.Tensor{tensors[0], tensors[2]} {
				if b, err := tensor(t, m, c.Name).Bytes(); err != nil || !bytes.Equal(b, c.Data) {
					t.Errorf("%s, %+v: %s: %v", tt.name, opts, c.Name, err)
				}
			}
		}
	}
}

// TestShardsChangedDirectory: where the files are does not depend on where the process is.
func TestShardsChangedDirectory(t *testing.T) {
	dir := t.TempDir()
	writeShards(t, dir, nil, tensorsOf("three")...)
	t.Chdir(dir)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		os.Chdir(dir)
		m := openPath(t, "model.apr", opts)
		if got := m.Files()[1].Path; got != "model-00002-of-00003.apr" {
			t.Errorf("path %s", got)
		}
		os.Chdir(os.TempDir())
		for x := range m.Tensors() {
			if _, err := x.Bytes(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestShardMetadata(t *testing.T) {
	two := []modeltest.Tensor{modeltest.Random("a", layout.I8, 2), modeltest.Random("b", layout.I8, 2)}
	quant := func(scales map[string]float64) map[string]any {
		return map[string]any{"quantization": map[string]any{"scales": scales}}
	}
	withScale := func(dir string, i int, c modeltest.Tensor, scale string) {
		md := layout.Metadata{{Key: "quantization", Value: layout.Metadata{{Key: "scales", Value: layout.Metadata{{Key: c.Name, Value: json.Number(scale)}}}}}}
		modeltest.WriteTo(t, filepath.Join(dir, fmt.Sprintf("model-%05d-of-00002.apr", i)), modeltest.APR2Model(t, md, c))
	}
	dir := t.TempDir()
	path := writeShards(t, dir, func(m *manifest) {
		withScale(dir, 2, two[1], "0.25")
		m.describe(t, dir)
		m.Metadata = quant(map[string]float64{"a": 0.5, "b": 8})
	}, two...)
	m := openPath(t, path, nil)
	for name, want := range map[string]float32{"a": 0.5, "b": 0.25} { // b's own shard knows better
		if q, scaled, err := tensor(t, m, name).Scale(); q.Scale != want || !scaled || err != nil {
			t.Errorf("%s: %v, %v, %v", name, q, scaled, err)
		}
	}
	md, err := m.Metadata()
	if b, ok := md.Get("quantization", "scales", "b"); !ok || b != json.Number("8") || err != nil || len(md) != 1 {
		t.Errorf("%v, %v", md, err)
	}

	m.Close() // Windows overwrites no mapped file
	path = writeShards(t, dir, func(m *manifest) {
		withScale(dir, 1, two[0], "0.125")
		m.describe(t, dir)
		m.Metadata = quant(map[string]float64{"b": -1})
	}, two...)
	m = openPath(t, path, nil)
	if q, scaled, err := tensor(t, m, "a").Scale(); q.Scale != 0.125 || !scaled || err != nil {
		t.Errorf("a: %v, %v, %v", q, scaled, err)
	}
	if q, scaled, err := tensor(t, m, "b").Scale(); q.Scale != -1 || !scaled || err != nil {
		t.Errorf("b: %v, %v, %v", q, scaled, err)
	}

	m.Close()
	path = writeShards(t, dir, func(m *manifest) { m.Metadata = quant(map[string]float64{"a": 0}) }, two...)
	m = openPath(t, path, nil)
	if _, _, err := tensor(t, m, "a").Scale(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a scale of zero: %v", err)
	}
}

func TestVerifyShards(t *testing.T) {
	dir := t.TempDir()
	big := modeltest.Random("big", layout.F32, 3<<20/4)
	path := writeShards(t, dir, nil, append(tensorsOf("three"), big)...)
	total := uint64(0)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		m := openPath(t, path, opts)
		total = 0
		for _, f := range m.Files()[:4] {
			total += f.Size - apr2Footer
		}
		last, calls := uint64(0), 0
		r, err := m.Verify(context.Background(), &loader.VerifyOptions{Workers: 3, Progress: func(done, all uint64) {
			if calls++; done <= last || all != total {
				t.Errorf("%d of %d after %d of %d", done, all, last, total)
			}
			last = done
		}})
		if err != nil || len(r.Findings) > 0 || r.BytesRead != total || last != total || calls < 7 {
			t.Errorf("%+v, %v; %d of %d in %d steps", r, err, last, total, calls)
		}
		for _, checked := range []string{"header", "manifest", "shards", "crc32", "shards.crc32"} {
			if !slices.Contains(r.Checked, checked) {
				t.Errorf("%v does not have %s", r.Checked, checked)
			}
		}
	}
	bad := filepath.Join(dir, "model-00004-of-00004.apr")
	f, err := os.OpenFile(bad, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(tensor(t, openPath(t, path, nil), "big").Offset())
	if _, err := f.WriteAt([]byte{^big.Data[1<<20]}, at+1<<20); err != nil {
		t.Fatal(err)
	}
	m := openPath(t, path, nil)
	r, err := m.Verify(context.Background(), nil)
	if err != nil || len(r.Findings) != 2 || r.Findings[0].File != bad || r.Findings[0].Field != "crc32" ||
		r.Findings[1].File != path || r.Findings[1].Field != "shards.crc32" || !strings.Contains(r.Findings[1].Error(), bad) || !errors.Is(r.Err(), layout.ErrChecksum) {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := m.Verify(ctx, &loader.VerifyOptions{Progress: func(uint64, uint64) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestVerifyCRCOfShards holds the sums of ranges against sums of whole files, of sizes around
// stepBytes.
func TestVerifyCRCOfShards(t *testing.T) {
	var tensors []modeltest.Tensor
	for i, n := range []uint64{1, loader.CRCChunk - 1, loader.CRCChunk, loader.CRCChunk + 1, 2*loader.CRCChunk - 300} {
		tensors = append(tensors, modeltest.Random(fmt.Sprint("t", i), layout.U8, int(n)))
	}
	for range 2 {
		m := openPath(t, writeShards(t, t.TempDir(), nil, tensors...), nil)
		if r, err := m.Verify(context.Background(), nil); err != nil || len(r.Findings) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestVerifySwappedShards: every shard is valid, and of the right size, but another model's or
// another's place. One that has the right number in its footer opens, and passes no further.
func TestVerifySwappedShards(t *testing.T) {
	ofBytes := func(values string) modeltest.Tensor {
		return modeltest.Tensor{Name: "t", DType: layout.U8, Shape: []int{4}, Data: []byte(values)}
	}
	for _, digests := range []bool{false, true} {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			dir := t.TempDir()
			path := writeShards(t, dir, func(m *manifest) {
				if digests {
					m.describe(t, dir)
				}
			}, ofBytes("good"))
			shard := filepath.Join(dir, "model-00001-of-00001.apr")
			right, err := os.ReadFile(shard)
			if err != nil {
				t.Fatal(err)
			}
			m := openPath(t, path, opts)
			r, err := m.Verify(context.Background(), nil)
			if err != nil || len(r.Findings) > 0 || slices.Contains(r.Checked, "shards.sha256") != digests {
				t.Fatalf("%+v, %v", r, err)
			}
			m.Close() // Windows overwrites no mapped file
			swapped := modeltest.APR2Model(t, nil, ofBytes("evil"))
			if len(swapped) != len(right) || crc32.ChecksumIEEE(swapped) != crc32.ChecksumIEEE(right) {
				t.Fatal("these do not have the size and the checksum of the whole file that they share")
			}
			modeltest.WriteTo(t, shard, swapped)
			if _, err := loader.Open(path, opts); !errors.Is(err, layout.ErrChecksum) || !strings.Contains(err.Error(), "shards.crc32") || strings.Count(err.Error(), "00001-of-00001") != 1 {
				t.Errorf("another model's shard: %v", err)
			}
			copy(swapped[len(swapped)-apr2Footer:], right[len(right)-apr2Footer:]) // a forgery
			modeltest.WriteTo(t, shard, swapped)
			m = openPath(t, path, opts)
			r, err = m.Verify(context.Background(), nil)
			var fields []string
			for _, f := range r.Findings {
				fields = append(fields, f.Field)
			}
			want := []string{"crc32", "shards.crc32"}
			if digests {
				want = append(want, "shards.sha256")
			}
			if err != nil || !slices.Equal(fields, want) || r.Err() == nil {
				t.Errorf("a forged footer: %v, %v", r.Findings, err)
			}
		}
	}
}

// TestVerifyDigests reads a shard with a digest once and in order, whatever else sums it, and
// names the shard whose digest is another.
func TestVerifyDigests(t *testing.T) {
	var tensors []modeltest.Tensor
	for i, n := range []uint64{0, 1, loader.CRCChunk, 3*loader.CRCChunk + 300} {
		tensors = append(tensors, modeltest.Random(fmt.Sprint("t", i), layout.U8, int(n)))
	}
	dir := t.TempDir()
	total := uint64(0)
	path := writeShards(t, dir, func(m *manifest) {
		m.describe(t, dir)
		for _, s := range m.Shards {
			total += uint64(s.Size)
		}
		m.Shards[2].SHA256 = "" // between others
		total -= apr2Footer
	}, tensors...)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		for _, workers := range []int{1, 3} {
			m := openPath(t, path, opts)
			r, err := m.Verify(context.Background(), &loader.VerifyOptions{Workers: workers})
			m.Close()
			if err != nil || len(r.Findings) > 0 || r.BytesRead != total {
				t.Errorf("%d of %d bytes, %+v, %v", r.BytesRead, total, r, err)
			}
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte(`"sha256":"`)) + len(`"sha256":"`)
	if text[at]++; text[at] == '9'+1 || text[at] == 'f'+1 {
		text[at] = '0'
	}
	modeltest.WriteTo(t, path, text)
	r, err := openPath(t, path, nil).Verify(context.Background(), nil)
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Field != "shards.sha256" || r.Findings[0].Offset != uint64(at-1) ||
		!strings.Contains(r.Findings[0].Error(), "model-00004-of-00004.apr") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestShardStats(t *testing.T) {
	m := openPath(t, writeShards(t, t.TempDir(), nil, tensorsOf("three")...), nil)
	if !mapsFiles {
		t.Skip("nothing is mapped here")
	}
	manifest := m.Files()[3].Size
	mappedBytes := func() uint64 {
		return m.Stats().MappedBytes
	}
	if n := mappedBytes(); n != manifest {
		t.Errorf("%d bytes mapped before a tensor is touched, want %d", n, manifest)
	}
	x := tensor(t, m, "q4")
	if err := x.Dequantize(make([]float32, x.Elements())); err != nil {
		t.Fatal(err)
	}
	if n, want := mappedBytes(), manifest+m.Files()[2].Size; n != want {
		t.Errorf("%d bytes mapped, want %d", n, want)
	}
}

func TestShardLeaseOutlivesClose(t *testing.T) {
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		tensors := tensorsOf("three")
		m := openPath(t, writeShards(t, t.TempDir(), nil, tensors...), opts)
		l, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		for _, c := range tensors { // touched for the first time
			if b, err := tensor(t, l, c.Name).Bytes(); err != nil || !bytes.Equal(b, c.Data) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		x := tensor(t, l, "i8")
		l.Release()
		if _, err := x.Bytes(); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("after Release: %v", err)
		}
	}
}

// TestFirstTouchOnce: of many that touch a shard first, each gets the same memory.
func TestFirstTouchOnce(t *testing.T) {
	tensors := tensorsOf("three")
	path := writeShards(t, t.TempDir(), nil, tensors...)
	for range 50 {
		m := openPath(t, path, nil)
		var wg sync.WaitGroup
		got := make([][]byte, 8)
		for i := range got {
			wg.Go(func() {
				b, err := tensor(t, m, "f32").Bytes()
				if err != nil || !bytes.Equal(b, tensors[0].Data) {
					t.Error(err)
				}
				got[i] = b
			})
		}
		wg.Wait()
		for _, b := range got {
			if mapsFiles && &b[0] != &got[0][0] {
				t.Fatal("mapped twice")
			}
		}
		m.Close()
	}
}

func TestShardTensorsAllocateNothing(t *testing.T) {
	m := openPath(t, writeShards(t, t.TempDir(), nil, tensorsOf("three")...), nil)
	tensor(t, m, "f32").Bytes()
	if n := testing.AllocsPerRun(100, func() {
		x, err := m.Tensor("f32")
		if err != nil {
			t.Error(err)
		}
		if x.ZeroCopy() != (littleEndian && mapsFiles) && mapsFiles {
			t.Error("copied")
		}
		if _, err := x.Bytes(); err != nil {
			t.Error(err)
		}
	}); n != 0 && mapsFiles {
		t.Errorf("%v allocations", n)
	}
}

// TestSplitOfManyBoundsMemory: a small file that says it is one of 65,535 makes room for what
// is there.
func TestSplitOfManyBoundsMemory(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "shards", "gguf/model-00001-of-00004.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte("split.count"), 2, 0, 0, 0, 4, 0)
	if bytes.Count(b, key) != 1 {
		t.Fatal("no split.count")
	}
	b = bytes.Replace(b, key, append(key[:len(key)-2:len(key)-2], 0xff, 0xff), 1)
	path := modeltest.Write(t, "model-00001-of-65535.gguf", b)
	n := testmode.Allocated(func() { _, err = loader.Open(path, nil) })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if n > 100_000 {
		t.Errorf("%d bytes taken", n)
	}
}
