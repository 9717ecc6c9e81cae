package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// scaledF8 is a checkpoint as FP8 models are published: codes, and a scale for each block of them.
func scaledF8(t *testing.T) string {
	t.Helper()
	data := []byte{0x38, 0x40, 0x48, 0xb8} // 1, 2, 4, -1 in E4M3
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(2e-4))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(1))
	return modeltest.WriteSafeTensors(t, `{"w.weight":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},`+
		`"w.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},"norm":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, data...)
}

// TestCodesAreNotWeights: a number that is a code is not passed off as a weight. Every verb gives the values that
// the checkpoint means, 1 to 4 times 2e-4 here.
func TestCodesAreNotWeights(t *testing.T) {
	file := scaledF8(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out.apr")
	for _, dtype := range []string{"f32", "bf16"} {
		done(t, "convert", file, out, "--dtype", dtype)
		if list := inspected(t, out).Tensors; len(list) != 2 || list[0].Name != "w.weight" || !strings.EqualFold(list[0].DType, dtype) {
			t.Errorf("%s: %+v", dtype, list)
		}
	}
	const values = "# w.weight fp8 2×2 0.0002 0.0004 0.0008 -0.0002"
	if got := strings.Join(strings.Fields(done(t, "dump", file, "w.weight", "--as=text")), " "); got != values {
		t.Errorf("%q", got)
	}
	const says = "stays quantized: 1 tensor (fp8): w.weight scaled by w.weight_scale_inv\n"
	for _, args := range [][]string{{"convert", file, out}, {"convert", file, out, "--dtype", "f16", "--keep", "w.*"}, {"merge", file, out}} {
		if r := tensormap(args...); r.status != exitDone || !strings.Contains(r.stderr, says) {
			t.Errorf("%v: %+v", args, r)
		}
		if got := strings.Join(strings.Fields(done(t, "dump", out, "w.weight", "--as=text")), " "); got != values {
			t.Errorf("%v: %q", args, got)
		}
		done(t, "diff", file, out, "--tolerance", "0")
	}
	tensormap("dump", file, "w.weight", "--as=raw").failsWith(t, file+`: tensor "w.weight": `, "w.weight_scale_inv")
	if got := done(t, "dump", file, "w.weight_scale_inv", "--as=text"); !strings.Contains(got, "0.0002") {
		t.Errorf("%q", got)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-12] = 0x40 // 2, not 1
	other := modeltest.Write(t, "other.safetensors", content)
	if r := tensormap("diff", file, other); r.status != exitFailed || !strings.Contains(r.stdout, "values") {
		t.Errorf("diff: %+v", r)
	}
	done(t, "diff", file, other, "--tolerance", "0.01")
}

// TestInspectWeights holds the contract of inspect for quantized weights.
func TestInspectWeights(t *testing.T) {
	file := scaledF8(t)
	weight := `{"name":"w.weight","shape":[2,2],"elements":4,"scheme":"fp8","parts":[` +
		`{"role":"codes","name":"w.weight","dtype":"F8_E4M3","shape":[2,2],"file":0,"offset":AT0,"stored_bytes":4},` +
		`{"role":"scale","name":"w.weight_scale_inv","dtype":"F32","shape":[1,1],"file":0,"offset":AT4,"stored_bytes":4}]}`
	stored := done(t, "inspect", file, "--stored", "--json")
	var base int
	for _, x := range inspected(t, file, "--stored").Tensors {
		if x.Name == "w.weight" {
			base = int(x.Offset)
		}
	}
	weight = strings.NewReplacer("AT0", strconv.Itoa(base), "AT4", strconv.Itoa(base+4)).Replace(weight)
	if got := done(t, "inspect", file, "--json"); !strings.Contains(got, weight) || strings.Contains(got, `{"name":"w.weight_scale_inv"`) {
		t.Errorf("%s\nwant %s", got, weight)
	}
	if !strings.Contains(stored, `{"name":"w.weight","dtype":"F8_E4M3","shape":[2,2]`) || !strings.Contains(stored, `{"name":"w.weight_scale_inv"`) {
		t.Error(stored)
	}
	for _, args := range [][]string{{}, {"--tree"}} {
		if got := done(t, append([]string{"inspect", file}, args...)...); !strings.Contains(got, "fp8") || strings.Contains(got, "scale_inv") || strings.Contains(got, "INVALID") {
			t.Errorf("%v: %s", args, got)
		}
	}
	svg := done(t, "map", file)
	if !strings.Contains(svg, "scale of w.weight (fp8)") || !strings.Contains(svg, "codes of w.weight (fp8)") {
		t.Error(svg)
	}
	for verb, want := range map[string]string{"stats": `"name":"w.weight","scheme":"fp8","shape":[2,2],"elements":4`, "hash": `"name":"w.weight","scheme":"fp8"`} {
		if got := done(t, verb, file, "--json"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", verb, got)
		}
	}
}

// checkpoints are those of testdata/quantized, by the path to open.
func checkpoints(t *testing.T) (list []string) {
	t.Helper()
	for _, name := range []string{"model.safetensors", "model.safetensors.index.json", "model.gguf"} {
		found, err := filepath.Glob("../../testdata/quantized/*/" + name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

// TestDiffOriginal compares every checkpoint with the model that it was made of. The error that diff reports is
// that of the values that the writer's own code reads out of its file.
func TestDiffOriginal(t *testing.T) {
	type distance struct {
		Name   string
		Values *struct {
			MaxAbs float64 `json:"max_abs"`
			RMSE   float64
		}
	}
	differences := func(path string) map[string]distance {
		var got struct{ Tensors []distance }
		r := tensormap("diff", "../../testdata/quantized/original/model.safetensors", path, "--json")
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			t.Fatalf("%s: %v: %s", path, err, r.stderr)
		}
		by := make(map[string]distance)
		for _, d := range got.Tensors {
			by[d.Name] = d
		}
		return by
	}
	compared := 0
	for _, path := range checkpoints(t) {
		folder := filepath.Base(filepath.Dir(path))
		if folder == "original" || folder == "gguf-nvfp4" { // the last has llama.cpp's names
			continue
		}
		got := differences(path)
		for name, want := range differences(filepath.Join(filepath.Dir(path), "expected.safetensors")) {
			if want.Values == nil {
				continue
			}
			compared++
			if d := got[name]; d.Values == nil || *d.Values != *want.Values {
				t.Errorf("%s: %s: %+v, want %+v", folder, name, d.Values, *want.Values)
			}
		}
	}
	if compared < 70 {
		t.Errorf("%d weights compared", compared)
	}
}

// TestConvertByUselessImportance: blocks without importance are counted, and those that no scale holds end the
// conversion.
func TestConvertByUselessImportance(t *testing.T) {
	x, sums := make([]float32, 512), make([]float32, 256)
	for i := range x {
		x[i] = float32(i%61) - 30
	}
	for i := range 192 {
		sums[64+i] = 1
	}
	file := modeltest.WriteSafeTensors(t, `{"w":{"dtype":"F32","shape":[2,256],"data_offsets":[0,2048]}}`, modeltest.Float32s(x...)...)
	matrix, out := filepath.Join(t.TempDir(), "imatrix.gguf"), filepath.Join(t.TempDir(), "out.gguf")
	done(t, "convert", modeltest.WriteSafeTensors(t, `{"w.in_sum2":{"dtype":"F32","shape":[256],"data_offsets":[0,1024]},"w.counts":{"dtype":"F32","shape":[1],"data_offsets":[1024,1028]}}`, modeltest.Float32s(append(sums, 1)...)...), matrix)
	r := tensormap("convert", file, out, "--dtype", "iq4_nl", "--all", "--imatrix", matrix)
	if said := "\nweighed evenly: 4 blocks in 1 tensor, whose columns have no importance, or none that float32 can add up\n"; r.status != exitDone || !strings.HasSuffix(r.stderr, said) {
		t.Errorf("%+v", r)
	}
	x[5] = 1e9
	large := modeltest.WriteSafeTensors(t, `{"w":{"dtype":"F32","shape":[2,256],"data_offsets":[0,2048]}}`, modeltest.Float32s(x...)...)
	tensormap("convert", large, out, "--dtype", "q4_0", "--all").failsWith(t, `tensor "w" as Q4_0: 32 numbers became NaN or infinite, since the scale of their blocks is beyond float16: value is not finite; --keep GLOB leaves tensors as they are`)
}

// TestConvertCheckpoints writes every checkpoint by its values, and as it is stored.
func TestConvertCheckpoints(t *testing.T) {
	dir := t.TempDir()
	for _, path := range checkpoints(t) {
		folder := filepath.Base(filepath.Dir(path))
		if folder == "original" {
			continue
		}
		out, kept := filepath.Join(dir, folder+".safetensors"), filepath.Join(dir, folder+"-kept.safetensors")
		done(t, "convert", path, out, "--dtype", "f32")
		done(t, "diff", path, out, "--tolerance", "0", "--filter", "*{weight,bias}") // the mark scaled_fp8 goes
		text := done(t, "inspect", out, "--json")
		for _, claim := range []string{"quantization_config", "compression_config", "quant_algo", "group_size", `"scheme"`, "weight_scale"} {
			if strings.Contains(text, claim) {
				t.Errorf("%s: still says %s", folder, claim)
			}
		}
		if folder != "gguf-nvfp4" { // whose blocks SafeTensors cannot hold
			done(t, "convert", path, kept)
			done(t, "diff", path, kept)
		}
	}
}

// TestConvertCodesToGGUF: its readers know no codes. They get weights, whatever --keep says, or nothing.
func TestConvertCodesToGGUF(t *testing.T) {
	trellis := modeltest.WriteSafeTensors(t, `{"w.trellis":{"dtype":"I16","shape":[1,1,1],"data_offsets":[0,2]},"w.suh":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 1, 2, 3, 4)
	out := filepath.Join(t.TempDir(), "out.gguf")
	for _, args := range [][]string{{}, {"--dtype", "f16", "--keep", "w.*"}} {
		done(t, append([]string{"convert", scaledF8(t), out}, args...)...)
		if got := strings.Join(strings.Fields(done(t, "dump", out, "w.weight", "--as=text")), " "); got != "# w.weight F32 2×2 0.0002 0.0004 0.0008 -0.0002" {
			t.Errorf("%v: %q", args, got)
		}
	}
	out = filepath.Join(t.TempDir(), "out.gguf")
	tensormap("convert", trellis, out).failsWith(t, trellis+`: tensor "w.trellis": unsupported operation: exl3 is not decoded`, "not re-encoded; --keep GLOB copies tensors as they are")
	empty(t, filepath.Dir(out))
	done(t, "convert", trellis, out, "--keep", "*")
}

// TestStaleConfigWarning: a config.json beside OUT that no longer holds is named.
func TestStaleConfigWarning(t *testing.T) {
	file := scaledF8(t)
	dir := filepath.Dir(file)
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(`{"quantization_config":{"quant_method":"fp8"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	says := "warning: " + config + " says that the weights are quantized, which the weights of "
	for dtype, want := range map[string]bool{"--dtype=bf16": true, "--align=64": false} {
		r := tensormap("convert", file, filepath.Join(dir, "new.safetensors"), dtype)
		if r.status != exitDone || strings.Contains(r.stderr, says) != want {
			t.Errorf("%s: %+v", dtype, r)
		}
	}
}

// TestPlainF8: without a scale nobody but the user knows what F8 means.
func TestPlainF8(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"w":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}}`, 0x38, 0x40, 0x48, 0xb8)
	out := filepath.Join(t.TempDir(), "out.apr")
	tensormap("convert", file, out, "--dtype", "f32").failsWith(t, file+`: tensor "w": unsupported operation: F8_E4M3 without a scale`, "not re-encoded; --plain-f8 takes F8_E4M3 for weights, --keep GLOB")
	empty(t, filepath.Dir(out))
	done(t, "convert", file, out)
	done(t, "convert", file, out, "--dtype", "f32", "--plain-f8")
	if got := done(t, "dump", out, "w", "--as=text"); strings.Join(strings.Fields(got), " ") != "# w F32 2×2 1 2 4 -1" {
		t.Errorf("%q", got)
	}
	for _, flag := range []string{"--plain-f8", "--all"} {
		if r := tensormap("convert", file, out, flag); r.status != exitUsage || !strings.Contains(r.stderr, "--dtype") {
			t.Errorf("%s: %+v", flag, r)
		}
	}
}

// TestConvertSaysZeroed: values that a type turns into 0 are said, and when nothing else is left.
func TestConvertSaysZeroed(t *testing.T) {
	values := func(list ...float32) (b []byte) {
		for _, x := range list {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		return b
	}
	header := `{"a":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]},"b":{"dtype":"F32","shape":[2,32],"data_offsets":[256,512]},"c":{"dtype":"F32","shape":[2,32],"data_offsets":[512,768]}}`
	var list []float32
	for i := range 3 * 64 {
		x := float32(0.5)
		switch {
		case i == 3:
			x = 3e-9
		case i == 4:
			x = -2e-9
		case i == 5:
			x = 0
		case i >= 96 && i < 128: // the second block of b
			x = 1e-9
		case i >= 128: // c
			x = 4e-9
		}
		list = append(list, x)
	}
	file := modeltest.WriteSafeTensors(t, header, values(list...)...)
	for dtype, want := range map[string][]string{
		"f16": {
			`warning: OUT: tensor "c": nothing but 0 is left as F16, of values up to 4e-09; see --keep`,
			"became 0 as F16: 98 of 192 values (51%) in 3 tensors, the largest 4e-09 in c",
		},
		"q8_0": {
			`warning: OUT: tensor "c": nothing but 0 is left as Q8_0, of values up to 4e-09; see --keep`,
			"warning: OUT: 1 block became 0 as a whole, the scale being too small for Q8_0; see --keep",
			"became 0 as Q8_0: 98 of 192 values (51%) in 3 tensors, the largest 4e-09 in c",
		},
		"q4_k_m": {
			"written as Q5_0: 3 tensors (rows no multiple of 256, as Q4_K wants): a, b, c",
			`warning: OUT: tensor "c": nothing but 0 is left as Q5_0, of values up to 4e-09; see --keep`,
			"warning: OUT: 1 block became 0 as a whole, the scale being too small for Q5_0; see --keep",
			"became 0 as Q5_0: 98 of 192 values (51%) in 3 tensors, the largest 4e-09 in c",
		},
		"bf16": nil,
		"f32":  nil,
	} {
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap("convert", file, out, "--dtype", dtype)
		_, said, _ := strings.Cut(strings.ReplaceAll(strings.TrimSuffix(r.stderr, "\n"), out, "OUT"), "\n")
		said = strings.TrimSuffix(errorsReport.ReplaceAllString(said+"\n", ""), "\n")
		if r.status != exitDone || said != strings.Join(want, "\n") {
			t.Errorf("%s: %+v", dtype, r)
		}
	}
	r := tensormap("convert", modeltest.WriteSafeTensors(t, `{"c":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, values(4e-9, 4e-9, 4e-9, 4e-9)...), filepath.Join(t.TempDir(), "out.apr"), "--dtype", "f16")
	if !strings.HasSuffix(r.stderr, "became 0 as F16: 4 of 4 values (100%) in 1 tensor, the largest 4e-09 in c\n") {
		t.Errorf("%+v", r)
	}
}

// TestConvertKeepsPrecise: quantizing leaves alone what models depend on, unless it is asked to.
func TestConvertKeepsPrecise(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "safetensors", "minilm-slice.safetensors")
	for _, tt := range []struct {
		args []string
		norm string
		says string
	}{
		{[]string{"--dtype", "q4_0"}, "F32", "left as stored: 2 tensors (a norm): embeddings.LayerNorm.bias, embeddings.LayerNorm.weight\nleft as stored: 1 tensor (a bias): encoder.layer.0.attention.output.dense.bias\n"},
		{[]string{"--dtype", "q4_0", "--all"}, "Q4_0", ""},
		{[]string{"--dtype", "i8"}, "F32", "(a norm)"},
		{[]string{"--dtype", "f16"}, "F16", ""},
	} {
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap(append([]string{"convert", source, out}, tt.args...)...)
		if r.status != exitDone || !strings.Contains(r.stderr, tt.says) || strings.Contains(r.stderr, "(a norm)") != (tt.says != "") {
			t.Errorf("%v: %+v", tt.args, r)
		}
		for _, x := range inspected(t, out).Tensors {
			if strings.Contains(x.Name, "LayerNorm") && x.DType != tt.norm {
				t.Errorf("%v: %s is %s", tt.args, x.Name, x.DType)
			}
		}
	}
}

// TestSplitKeys: how a GGUF model was divided is not said of what is made of it.
func TestSplitKeys(t *testing.T) {
	const source = shardFixtures + "gguf/model-00002-of-00004.gguf"
	if text := done(t, "inspect", source, "--json"); !strings.Contains(text, `"split.count"`) {
		t.Fatal("the source has no split.count")
	}
	for _, args := range [][]string{
		{"convert", source, "out.apr"}, {"convert", source, "out.safetensors"}, {"merge", source, "out.apr"}, {"merge", source, "out.safetensors"},
		{"convert", source, "out.apr", "--dtype", "f16"}, {"split", source, "out.apr", "--shard-size", "1KB"},
	} {
		args[2] = filepath.Join(t.TempDir(), args[2])
		done(t, args...)
		if text := done(t, "inspect", args[2], "--json"); strings.Contains(text, "split.") || !strings.Contains(text, "general.architecture") {
			t.Errorf("%v: %s", args, text)
		}
	}
	if text := done(t, "convert", source, filepath.Join(t.TempDir(), "out.apr"), "--dry-run", "--json"); strings.Contains(text, "split.") {
		t.Error(text)
	}
}
