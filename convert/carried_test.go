package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// copied copies a model to a new directory, as the verbs merge and split do: without what is beside it.
func copied(t *testing.T, m *loader.Model, suffix string, opts convert.Options) (*loader.Model, *convert.Plan) {
	t.Helper()
	opts.Compress = convert.AsStored
	p, err := convert.Write(context.Background(), m, filepath.Join(t.TempDir(), "out"+suffix), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, p.Path, &loader.Options{}), p
}

// agree: what the copy calls by a name that m has too is the same weight, or has no values. It returns how many have.
func agree(t *testing.T, out, m *loader.Model) (n int) {
	t.Helper()
	for x := range m.Tensors() {
		y, err := out.Tensor(x.Name())
		if err != nil || x.Problem() != nil || y.Problem() != nil || x.Scheme() == nil {
			if err == nil && x.Problem() != nil && y.Problem() == nil {
				t.Errorf("%s: %s has values, and had none: %v", out.Path(), x.Name(), x.Problem())
			}
			continue
		}
		n++
		if !sameBits(values(t, x), values(t, y)) {
			t.Errorf("%s: %s has other values as %v, %v", out.Path(), x.Name(), y.Scheme(), y.DType())
		}
	}
	return n
}

// TestCopiesKeepTheirMethod: a quantized checkpoint that is merged, split or converted without the files beside it has the
// values that its writer's own code gives, wherever the new files lie, and each of them alone has these or none.
func TestCopiesKeepTheirMethod(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/quantized/*/expected.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, path := range dirs {
		dir := filepath.Dir(path)
		m, want := open(t, dir, &loader.Options{}), open(t, path, &loader.Options{})
		for x := range m.Tensors() {
			if x.Scheme() != nil {
				seen[x.Scheme().Scheme] = true
			}
		}
		for _, suffix := range []string{".safetensors", ".apr", ".gguf"} {
			t.Run(filepath.Base(dir)+suffix, func(t *testing.T) {
				merged, p := copied(t, m, suffix, convert.Options{})
				split, q := copied(t, m, suffix, convert.Options{ShardBytes: max(1, p.Bytes*2/3)})
				again, _ := copied(t, merged, ".safetensors", convert.Options{})
				for _, out := range []*loader.Model{merged, split, again} {
					for x := range want.Tensors() {
						y, err := out.Tensor(x.Name())
						if err != nil { // fused experts, whose parts are called .weight_packed and so on
							y = tensor(t, out, x.Name()+".weight")
						}
						if err := asComputed(values(t, x), values(t, y)); err != nil {
							t.Errorf("%s: %s: %v", out.Path(), x.Name(), err)
						}
					}
				}
				for i := range q.Shards {
					agree(t, open(t, split.Files()[i].Path, &loader.Options{}), m)
				}
			})
		}
	}
	text, err := os.ReadFile("../docs/quantized.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (\\[`.*?\\)) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !seen[name[1]] {
				t.Errorf("no checkpoint of scheme %s", name[1])
			}
			delete(seen, name[1])
		}
	}
	if len(seen) > 0 {
		t.Errorf("schemes %v stand in no table", seen)
	}
}

// asComputed compares with what the reference computes. Kernels of bitsandbytes differ in the sign of zeros.
func asComputed(want, got []float32) error {
	if len(want) != len(got) {
		return errors.New("another number of values")
	}
	for i := range want {
		if want[i] != got[i] && (want[i] == want[i] || got[i] == got[i]) {
			return errors.New("other values")
		}
	}
	return nil
}

// moved returns the files of a checkpoint in a directory of their own.
func moved(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(to, "expected.safetensors"))
	for name, text := range files {
		path := filepath.Join(to, name)
		err := os.Remove(path)
		if text != "" {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestContradiction: of a configuration beside the file and another one in its metadata neither is taken.
func TestContradiction(t *testing.T) {
	const v1 = "../testdata/quantized/gptq-8bit-v2-act-order"
	config, err := os.ReadFile(filepath.Join(v1, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, v1, &loader.Options{})
	out, _ := copied(t, m, ".safetensors", convert.Options{})
	dir := filepath.Dir(out.Path())
	beside := func(text string) *loader.Model {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return open(t, out.Path(), &loader.Options{})
	}
	if same := beside(string(config)); agree(t, same, m) == 0 {
		t.Error("no values beside the same configuration")
	}
	if silent := beside(`{"model_type":"llama"}`); agree(t, silent, m) == 0 {
		t.Error("no values beside a configuration that says nothing")
	}
	other := beside(strings.Replace(string(config), "gptq_v2", "gptq", 1))
	if agree(t, other, m) != 0 {
		t.Error("values of one of two configurations")
	}
	for x := range other.Tensors() {
		if err := x.Problem(); strings.HasSuffix(x.Name(), ".qweight") && (err == nil || !strings.Contains(err.Error(), `checkpoint_format: "\"gptq\"" and "\"gptq_v2\""`)) {
			t.Errorf("%s: %v", x.Name(), err)
		}
	}
	path := filepath.Join(t.TempDir(), "again.safetensors")
	if _, err := convert.Write(t.Context(), other, path, nil); err == nil || !strings.Contains(err.Error(), "checkpoint_format") {
		t.Errorf("copied: %v", err)
	}
	if _, _, err := convert.SideFiles(t.Context(), other); err == nil || !strings.Contains(err.Error(), "checkpoint_format") {
		t.Errorf("read what is beside it: %v", err)
	}
	onlyFiles(t, filepath.Dir(path))
	again, _ := copied(t, other, ".safetensors", convert.Options{Config: parse(t, string(config))}) // as --metadata gives it
	if agree(t, again, m) == 0 {
		t.Error("no values by the configuration that the caller gave")
	}
}

// TestUnreadableConfig: codes are not copied away from a configuration that cannot be read.
func TestUnreadableConfig(t *testing.T) {
	m := open(t, moved(t, "../testdata/quantized/gptq-8bit-v2-act-order", map[string]string{"config.json": `{"quantization_config":`}), &loader.Options{})
	for _, suffix := range []string{".safetensors", ".apr"} {
		path := filepath.Join(t.TempDir(), "out"+suffix)
		if _, err := convert.Write(t.Context(), m, path, nil); err == nil || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: %v", suffix, err)
		}
		onlyFiles(t, filepath.Dir(path))
	}
}

// TestUndecodedKeepsItsMethod: codes that are not decoded are not taken for others once they are copied.
func TestUndecodedKeepsItsMethod(t *testing.T) {
	config := `{"model_type":"llama","quantization_config":{"quant_method":"exl3","bits":8,"group_size":64}}`
	m := open(t, moved(t, "../testdata/quantized/gptq-8bit-v2-act-order", map[string]string{"config.json": config}), &loader.Options{})
	codes := slices.Collect(func(yield func(string) bool) {
		for x := range m.Tensors() {
			if x.Problem() != nil && !yield(x.Name()) {
				return
			}
		}
	})
	if len(codes) == 0 {
		t.Fatal("all is decoded")
	}
	for _, suffix := range []string{".safetensors", ".apr", ".gguf"} {
		out, _ := copied(t, m, suffix, convert.Options{Keep: func(name string) bool { return slices.Contains(codes, name) }})
		for _, name := range codes {
			if err := tensor(t, out, name).Problem(); err == nil || !strings.Contains(err.Error(), "exl3") {
				t.Errorf("%s: %s: %v", suffix, name, err)
			}
		}
	}
}

// TestOverridesAreCarried: tables of layers in whatever place they stand lead to the same values.
func TestOverridesAreCarried(t *testing.T) {
	const ollama = `{"quant_type":"int8","group_size":"32","a.weight.quant_type":"int4","a.weight.group_size":"64"}`
	a := []content{
		counting("a.weight", layout.U32, 8, 8), counting("a.weight.scale", layout.F16, 8, 1), counting("a.weight.bias", layout.F16, 8, 1),
		counting("b.weight", layout.U32, 8, 16), counting("b.weight.scale", layout.F16, 8, 2), counting("b.weight.bias", layout.F16, 8, 2),
	}
	described := open(t, write(t, safeTensors(0, ollama, a...)), &loader.Options{})
	nested := moved(t, "../testdata/quantized/mlx-mixed", nil)
	config, err := os.ReadFile(filepath.Join(nested, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(nested, "config.json"), []byte(`{"model_type":"llava","text_config":`+string(config)+`}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*loader.Model{"Ollama": described, "nested": open(t, nested, &loader.Options{})} {
		for _, suffix := range []string{".safetensors", ".apr", ".gguf"} {
			out, p := copied(t, m, suffix, convert.Options{})
			split, _ := copied(t, m, suffix, convert.Options{ShardBytes: p.Bytes * 2 / 3})
			if n := agree(t, out, m); n < 2 || agree(t, split, m) != n {
				t.Errorf("%s%s: %d weights, or others in shards", name, suffix, n)
			}
		}
	}
}

// TestMarkOfScaledFP8: ComfyUI takes the floats of a file with the tensor scaled_fp8 for FP8. So it goes with the codes, and
// stays as it is as long as there are some.
func TestMarkOfScaledFP8(t *testing.T) {
	for _, mark := range []content{counting("scaled_fp8", layout.F8_E4M3, 0), counting("model.diffusion_model.scaled_fp8", layout.F32, 2)} {
		prefix := strings.TrimSuffix(mark.name, "scaled_fp8")
		m := open(t, write(t, safeTensors(0, "{}", mark,
			counting(prefix+"a.weight", layout.F8_E4M3, 8, 32), counting(prefix+"a.scale_weight", layout.F32),
			counting(prefix+"b.weight", layout.F8_E4M3, 8, 32), counting(prefix+"b.scale_weight", layout.F32))), &loader.Options{})
		for _, suffix := range []string{".safetensors", ".apr", ".gguf"} {
			for _, d := range []layout.DType{layout.F32, layout.F16} {
				out, _ := copied(t, m, suffix, convert.Options{DType: d})
				if _, err := out.Tensor(mark.name); err == nil || out.Len() != 2 {
					t.Errorf("%s as %v%s: %d tensors, with its mark", mark.name, d, suffix, out.Len())
				}
				if suffix == ".gguf" {
					continue
				}
				for _, keep := range []func(name string) bool{
					func(name string) bool { return name == prefix+"b.weight" },
					func(name string) bool { return strings.HasSuffix(name, ".weight") }, // all weights, and not the marker
				} {
					part, _ := copied(t, m, suffix, convert.Options{DType: d, Keep: keep})
					if x := tensor(t, part, mark.name); x.DType() != mark.dtype || part.Len() != 3 {
						t.Errorf("%s beside codes as %v%s: is %v", mark.name, d, suffix, x.DType())
					}
				}
			}
			if out, _ := copied(t, m, suffix, convert.Options{}); suffix != ".gguf" {
				sameParts(t, out, m)
			}
		}
	}
}

// TestDescriptionsGoWithTheirCodes: what says how weights are quantized says it no more of those that are not.
func TestDescriptionsGoWithTheirCodes(t *testing.T) {
	const comfy = `{"format":"pt","_quantization_metadata":"{\"format_version\":\"1.0\",\"layers\":{\"a\":{\"format\":\"float8_e4m3fn\"},\"b\":{\"format\":\"float8_e4m3fn\"}}}"}`
	described := open(t, write(t, safeTensors(0, comfy,
		counting("model.diffusion_model.a.weight", layout.F8_E4M3, 8, 32), counting("model.diffusion_model.a.weight_scale", layout.F32),
		counting("b.weight", layout.F8_E4M3, 8, 32), counting("b.weight_scale", layout.F32))), &loader.Options{})
	const ollama = `{"format":"pt","quant_type":"int4","group_size":"64","a.weight.quant_type":"int4","a.weight.group_size":"64"}`
	own := open(t, write(t, safeTensors(0, ollama,
		counting("a.weight", layout.U32, 8, 8), counting("a.weight.scale", layout.F16, 8, 1), counting("a.weight.bias", layout.F16, 8, 1))), &loader.Options{})
	const auto = `{"format":"pt","gptq_bits":"4","gptq_group_size":"128","gptq_desc_act":"False","gptq_is_marlin_format":"False"}`
	path := write(t, safeTensors(0, auto, // whose zero points are 8, less one
		content{"a.qweight", layout.I32, []int{16, 8}, make([]byte, 4*16*8)}, content{"a.qzeros", layout.I32, []int{1, 1}, bytes.Repeat([]byte{0x77}, 4)}, counting("a.scales", layout.F16, 1, 8)))
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "config.json"), []byte(`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	gptq := open(t, path, &loader.Options{})
	for _, suffix := range []string{".safetensors", ".apr", ".gguf"} {
		for _, m := range []*loader.Model{described, own, gptq} {
			out, _ := copied(t, m, suffix, convert.Options{DType: layout.F16})
			text := asJSON(t, metadata(t, out))
			for _, claim := range []string{"_quantization_metadata", "quant_type", "group_size", "layers", "gptq_"} {
				if strings.Contains(text, claim) {
					t.Errorf("%s still says %s: %s", suffix, claim, text)
				}
			}
			if !strings.Contains(text, "pt") {
				t.Errorf("%s: %s", suffix, text)
			}
		}
		if suffix == ".gguf" {
			continue
		}
		for kept, gone := range map[string]string{"b": "a", "model.diffusion_model.a": "b"} {
			out, _ := copied(t, described, suffix, convert.Options{DType: layout.F16, Keep: func(name string) bool { return name == kept+".weight" }})
			text := asJSON(t, metadata(t, out))
			if !strings.Contains(text, `\"`+strings.TrimPrefix(kept, "model.diffusion_model.")+`\":{`) || strings.Contains(text, `\"`+gone+`\":{`) {
				t.Errorf("%s with the codes of %s: %s", suffix, kept, text)
			}
			if got, want := values(t, tensor(t, out, kept+".weight")), values(t, tensor(t, described, kept+".weight")); !sameBits(got, want) {
				t.Errorf("%s: other values of %s", suffix, kept)
			}
		}
	}
}
