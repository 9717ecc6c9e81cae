//go:build unix

package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// A model is a set of files and what has to come out of them.
type model struct {
	name    string
	files   map[string][]byte // by name
	path    string            // the one of them that is opened
	tensors []tensor
	meta    string // the metadata as JSON
	start   uint64 // where the first tensor begins
	// checksummed reports that a checksum covers every byte of a single file.
	checksummed bool
	key         encrypted.Key // of an encrypted model, else nil
}

// with returns options with the model's key.
func (m *model) with(o loader.Options) *loader.Options {
	if m.key != nil {
		o.Key = trust.Always(m.key)
	}
	return &o
}

// plain reports whether the model is not encrypted.
func (m *model) plain() bool { return m.key == nil }

// A tensor is what a model holds under a name.
type tensor struct {
	name   string
	dtype  layout.DType
	shape  []int
	raw    []byte
	stored []byte
	values []float32 // nil: its type has none
	quant  layout.Quant
	scaled bool
	file   int
	offset uint64
	// logical tells a tensor that is stored as several, and places where the bytes of a tensor are.
	logical bool
	places  []place
}

// A place is bytes of one of a model's files.
type place struct {
	file      int
	off, size uint64
}

// weights returns the names of the files that hold weights, in order. Others only say what these mean.
func (m *model) weights() (names []string) {
	for name := range m.files {
		if name != "config.json" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sharded reports whether the model is in several files.
func (m *model) sharded() bool { return len(m.files) > 1 }

// put writes the model's files to a folder and returns the path to open.
func (m *model) put(dir string) string {
	for name, b := range m.files {
		check(os.WriteFile(filepath.Join(dir, name), b, 0o666))
	}
	return filepath.Join(dir, m.path)
}

// weights makes the bytes of a tensor, with runs of zeros that compress.
func weights(rng *rand.Rand, d layout.DType, shape []int) []byte {
	b := make([]byte, must(d.Size(shape)))
	for i := 0; i < len(b); {
		run := min(4*(1+rng.IntN(30)), len(b)-i)
		if rng.IntN(3) == 0 {
			for j := range b[i : i+run] {
				b[i+j] = byte(rng.Uint32())
			}
		}
		i += run
	}
	return b
}

// rawAPR2 makes an APR2 file of tensors of many types.
func rawAPR2(rng *rand.Rand) []byte {
	var list []layout.Tensor
	var data [][]byte
	for i, d := range []layout.DType{layout.F32, layout.F16, layout.BF16, layout.I8, layout.Q8_0, layout.Q4_0, layout.Q4_K, layout.Q6_K, layout.Q8_0} {
		rows, columns := 8+rng.IntN(40), 1024
		if i == 8 {
			rows, columns = 160, 2048 // enough for several goroutines
		}
		list = append(list, layout.Tensor{Name: []byte(fmt.Sprintf("layer.%d.%s", i, strings.ToLower(d.String()))), DType: d, Shape: []int{rows, columns}})
		data = append(data, weights(rng, d, []int{rows, columns}))
	}
	metadata := layout.Metadata{
		{Key: "model_type", Value: "attack"}, {Key: "vocab", Value: strings.Repeat("word ", 500)},
		{Key: "apr_version", Value: "2.0.0"}, {Key: "architecture", Value: layout.Metadata{}},
		{Key: "quantization", Value: layout.Metadata{{Key: "scales", Value: layout.Metadata{{Key: "layer.3.i8", Value: 0.25}}}}},
	}
	var out bytes.Buffer
	w := must(apr2.NewWriter(&out, slices.Values(list), &apr2.Options{Metadata: metadata}))
	for _, b := range data {
		check(w.WriteTensor(b))
	}
	check(w.Close())
	return out.Bytes()
}

// converted writes a model as another one.
func converted(a *arena, from []byte, out string, opts *convert.Options) *model {
	dir := filepath.Join(a.dir, "make")
	check(os.MkdirAll(dir, 0o777))
	defer os.RemoveAll(dir)
	m := must(loader.OpenBytes(from, nil))
	defer m.Close()
	result := must(convert.Write(context.Background(), m, filepath.Join(dir, out), opts))
	var key encrypted.Key
	if opts != nil && opts.Encrypter != nil {
		key = opts.Encrypter.Secret.(encrypted.Key)
	}
	return read(dir, filepath.Base(result.Path), key)
}

// encrypter encrypts with a key that everybody knows.
func encrypter() *apr2.Encrypter {
	return &apr2.Encrypter{Secret: make(encrypted.Key, encrypted.KeySize), BlockSize: encrypted.MinBlock}
}

// read makes a model of the files in a folder.
func read(dir, name string, key encrypted.Key) *model {
	m := &model{name: name, path: name, files: map[string][]byte{}, key: key}
	for _, e := range must(os.ReadDir(dir)) {
		m.files[e.Name()] = must(os.ReadFile(filepath.Join(dir, e.Name())))
	}
	m.learn(dir)
	return m
}

// learn opens the model while nobody attacks it and notes what it holds.
func (m *model) learn(dir string) {
	opened := must(loader.Open(filepath.Join(dir, m.path), m.with(loader.Options{NoMap: true})))
	defer opened.Close()
	m.meta = describe(must(opened.Metadata()))
	m.start = math.MaxUint64
	for x := range opened.Tensors() {
		t := tensor{name: x.Name(), dtype: x.DType(), shape: x.Shape(), file: x.File(), offset: x.Offset(), logical: x.Scheme() != nil}
		if t.logical {
			for _, p := range x.Parts() {
				t.places = append(t.places, place{p.Tensor.File(), p.Tensor.Offset(), p.Tensor.StoredBytes()})
			}
		} else {
			t.raw = bytes.Clone(must(x.Bytes()))
			var stored bytes.Buffer
			must(x.WriteDecrypted(&stored))
			t.stored, t.places = stored.Bytes(), []place{{t.file, t.offset, x.StoredBytes()}}
		}
		if v, err := x.Float32s(); err == nil {
			t.values = append([]float32{}, v...)
		}
		t.quant, t.scaled, _ = x.Scale()
		m.tensors = append(m.tensors, t)
		m.start = min(m.start, t.offset)
	}
	m.checksummed = !m.sharded() && opened.Format() == layout.APR2
}

// describe writes metadata as text that can be compared.
func describe(md layout.Metadata) string {
	b, err := json.Marshal(md)
	if err != nil {
		return fmt.Sprint(md)
	}
	return string(b)
}

// models makes the models that are attacked: raw, compressed, quantized, sharded, and small
// ones of every format.
func models(a *arena) []*model {
	rng := rand.New(rand.NewPCG(1, 2)) // the same in every run
	raw := rawAPR2(rng)
	list := []*model{
		converted(a, raw, "raw.apr", nil),
		converted(a, raw, "lz4.apr", &convert.Options{Compress: convert.Fast}),
		converted(a, raw, "raw.safetensors", nil),
		converted(a, raw, "shards.apr", &convert.Options{ShardBytes: 150_000}),
		converted(a, raw, "lz4shards.apr", &convert.Options{ShardBytes: 200_000, Compress: convert.Fast}),
		converted(a, raw, "shards.safetensors", &convert.Options{ShardBytes: 200_000}),
	}
	quantized := quantizedModel(rng)
	list = append(list,
		converted(a, quantized, "quantized.safetensors", nil),
		converted(a, quantized, "quantized.apr", &convert.Options{Compress: convert.Fast}),
		converted(a, quantized, "shards of quantized.safetensors", &convert.Options{ShardBytes: 200_000}),
	)
	list = append(list,
		converted(a, raw, "encrypted.apr", &convert.Options{Encrypter: encrypter()}),
		converted(a, raw, "encrypted lz4.apr", &convert.Options{Encrypter: encrypter(), Compress: convert.Fast, ShardBytes: 200_000}),
	)
	for i, m := range list {
		m.name = []string{"raw", "lz4", "safetensors", "shards", "lz4shards", "safetensors shards", "quantized", "quantized lz4", "quantized shards", "encrypted", "encrypted lz4shards"}[i]
	}
	for _, name := range []string{"fp8-block", "ct-pack-act-order", "mlx-4bit", "hqq-odd", "bitnet", "awq-gemv", "gptq-planes", "bnb-nf4-nested-long", "gguf-nvfp4", "ct-nvfp4"} {
		list = append(list, checkpoint(name))
	}
	for _, path := range []string{
		"gguf/types.gguf", "gguf/split-00001-of-00003.gguf", "gguf/llama.gguf", "apr1/whisper_mel80.apr", "apr1/compressed_int8.apr",
		"apr2/compressed.apr", "aprender/now.apr", "april/dtypes.april", "tsm/tennis-packed.tsm", "bw2l/types2.b2l", "lz4/liblz4-hc12.apr",
		"safetensors/minilm-slice.safetensors",
	} {
		list = append(list, fixture(path))
	}
	return list
}

// quantizedModel makes a SafeTensors file of quantized weights in several schemes.
func quantizedModel(rng *rand.Rand) []byte {
	const rows, cols, groups = 512, 1024, 8
	codes := func(name string, d layout.DType, shape ...int) modeltest.Tensor {
		return modeltest.Tensor{Name: name, DType: d, Shape: shape, Data: weights(rng, d, shape)}
	}
	scales := func(name string, d layout.DType, shape ...int) modeltest.Tensor { // numbers, no NaN
		t := codes(name, d, shape...)
		for i := d.BlockBytes() - 1; i < len(t.Data); i += d.BlockBytes() {
			t.Data[i] = 0x3c
		}
		return t
	}
	fp8 := codes("a.weight", layout.F8_E4M3, rows, cols)
	for i := range fp8.Data {
		fp8.Data[i] &^= 0x40 // no NaN
	}
	index := codes("c.weight_g_idx", layout.I32, cols)
	for i := range cols {
		binary.LittleEndian.PutUint32(index.Data[4*i:], uint32(rng.IntN(groups)))
	}
	state := fmt.Appendf(nil, `{"quant_type":"nf4","blocksize":64,"shape":[%d,%d]}`, rows, cols)
	return modeltest.SafeTensors(
		fp8, scales("a.weight_scale_inv", layout.F32, rows/128, cols/128),
		codes("b.qweight", layout.I32, cols, rows/8), codes("b.qzeros", layout.I32, groups, rows/8), scales("b.scales", layout.F16, groups, rows),
		codes("c.weight", layout.I8, rows, cols), scales("c.weight_scale", layout.F32, rows, groups), index,
		codes("d.weight", layout.U8, rows*cols/2, 1), scales("d.weight.absmax", layout.F32, rows*cols/64),
		modeltest.Tensor{Name: "d.weight.quant_state.bitsandbytes__nf4", DType: layout.U8, Shape: []int{len(state)}, Data: state},
		scales("norm.weight", layout.F32, cols))
}

// checkpoint reads one of testdata/quantized, with its configuration.
func checkpoint(name string) *model {
	dir := filepath.Join("..", "..", "..", "testdata", "quantized", name)
	m := &model{name: name, path: "model.safetensors", files: map[string][]byte{}}
	for _, e := range must(os.ReadDir(dir)) {
		if e.Name() == "expected.safetensors" {
			continue
		}
		m.files[e.Name()] = must(os.ReadFile(filepath.Join(dir, e.Name())))
		if strings.HasSuffix(e.Name(), ".index.json") || strings.HasSuffix(e.Name(), ".gguf") {
			m.path = e.Name()
		}
	}
	m.learn(dir)
	return m
}

// fixture reads one of the files of testdata, and the others of its split.
func fixture(path string) *model {
	dir, name := filepath.Split(filepath.Join("..", "..", "..", "testdata", path))
	m := &model{name: path, path: name, files: map[string][]byte{name: must(os.ReadFile(dir + name))}}
	if prefix, _, split := strings.Cut(name, "-00001-of-"); split {
		for _, part := range must(filepath.Glob(dir + prefix + "-*.gguf")) {
			m.files[filepath.Base(part)] = must(os.ReadFile(part))
		}
	}
	m.learn(dir)
	return m
}

// putFloat writes the bits of x.
func putFloat(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) }
