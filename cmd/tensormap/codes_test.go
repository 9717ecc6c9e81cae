package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/modeltest"
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

// TestCodesAreNotWeights: a number that is a code is not passed off as a weight.
func TestCodesAreNotWeights(t *testing.T) {
	file := scaledF8(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out.apr")
	for _, dtype := range []string{"f32", "bf16", "q8_0", "i8"} {
		for _, more := range [][]string{nil, {"--plain-f8"}, {"--dry-run"}} {
			r := tensormap(append([]string{"convert", file, out, "--dtype", dtype}, more...)...)
			r.failsWith(t, file+`: tensor "w.weight": F8_E4M3 codes scaled by "w.weight_scale_inv" (fp8): not re-encoded, its numbers are not weights; --keep GLOB copies tensors as they are, and all are without --dtype`)
		}
	}
	tensormap("convert", file, out, "--dtype", "f16", "--keep", "w.weight").failsWith(t, `tensor "w.weight_scale_inv": scale of the codes in "w.weight" (fp8)`)
	empty(t, dir)
	const says = ": 1 tensor (fp8): w.weight scaled by w.weight_scale_inv\n"
	for _, args := range [][]string{{"convert", file, out}, {"convert", file, out, "--dtype", "f16", "--keep", "w.*"}, {"merge", file, out}} {
		if r := tensormap(args...); r.status != exitDone || !strings.Contains(r.stderr, "stays quantized"+says) {
			t.Errorf("%v: %+v", args, r)
		}
		if a, b := done(t, "dump", file, "w.weight", "--as=raw"), done(t, "dump", out, "w.weight", "--as=raw"); a != b {
			t.Errorf("%v: other bytes", args)
		}
	}
	for _, args := range [][]string{{"dump", file, "w.weight"}, {"dump", file, "w.weight[0]", "--as=text"}, {"dump", file, "w.weight", "-o", filepath.Join(dir, "dumped")}, {"stats", file}, {"stats", file, "--json"}, {"hash", file}, {"hash", file, "--values", "--total"}} {
		if r := tensormap(args...); r.status != exitDone || !strings.Contains(r.stderr, "codes, not weights"+says) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-12] = 0x40 // 2, not 1
	other := modeltest.Write(t, "other.safetensors", content)
	if r := tensormap("diff", file, other, "--tolerance", "9"); r.status != exitDone || !strings.Contains(r.stderr, "codes, not weights"+says) {
		t.Errorf("diff: %+v", r)
	}
	for _, args := range [][]string{{"hash", file, "--stored"}, {"diff", file, file, "--tolerance", "9"}, {"dump", file, "w.weight", "--as=raw"}, {"dump", file, "w.weight_scale_inv"}, {"stats", file, "--filter", "norm"}} {
		if r := tensormap(args...); r.status != exitDone || strings.Contains(r.stderr, "codes") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestPlainF8: without a scale nobody but the user knows what F8 means.
func TestPlainF8(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"w":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}}`, 0x38, 0x40, 0x48, 0xb8)
	out := filepath.Join(t.TempDir(), "out.apr")
	tensormap("convert", file, out, "--dtype", "f32").failsWith(t, file+`: tensor "w": F8_E4M3 without a scale: not re-encoded, its numbers may be codes, not weights; --plain-f8 takes F8 for weights, --keep GLOB`)
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
		"bf16": nil,
		"f32":  nil,
	} {
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap("convert", file, out, "--dtype", dtype)
		_, said, _ := strings.Cut(strings.ReplaceAll(strings.TrimSuffix(r.stderr, "\n"), out, "OUT"), "\n")
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
		{[]string{"--dtype", "q4_0"}, "F32", "kept as stored: 2 tensors (a norm): embeddings.LayerNorm.bias, embeddings.LayerNorm.weight\nkept as stored: 1 tensor (a bias): encoder.layer.0.attention.output.dense.bias\n"},
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
