package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// checkpoint opens one of testdata/quantized and reads what is beside it.
func checkpoint(t *testing.T, dir string) (*loader.Model, layout.Metadata) {
	t.Helper()
	m := open(t, dir, &loader.Options{})
	config, _, err := convert.SideFiles(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return m, config
}

// TestCheckpoints writes every checkpoint in every format, as it is stored and by its values.
func TestCheckpoints(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/quantized/*/expected.safetensors")
	if err != nil || len(dirs) < 40 {
		t.Fatalf("%d checkpoints, %v", len(dirs), err)
	}
	for _, expected := range dirs {
		dir := filepath.Dir(expected)
		m, config := checkpoint(t, dir)
		for _, suffix := range []string{".apr", ".safetensors", ".gguf"} {
			t.Run(filepath.Base(dir)+suffix, func(t *testing.T) {
				to := func(d layout.DType) (*loader.Model, *convert.Plan, error) {
					path := filepath.Join(t.TempDir(), "out"+suffix)
					p, err := convert.Write(context.Background(), m, path, &convert.Options{Config: config, DType: d})
					if err != nil {
						onlyFiles(t, filepath.Dir(path))
						return nil, nil, err
					}
					return open(t, path, &loader.Options{}), p, nil
				}
				refused := slices.ContainsFunc(slices.Collect(m.Tensors()), func(x loader.Tensor) bool { return x.Problem() != nil })
				copied, p, err := to(layout.Invalid)
				if refused && suffix == ".gguf" {
					if part := new(convert.CodesError); !errors.As(err, &part) {
						t.Fatalf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				sameWeights(t, copied, m, p)
				if native := m.Format() == layout.GGUF; (suffix == ".gguf") == native && suffix != ".apr" || suffix == ".apr" {
					sameParts(t, copied, m)
				}
				plain, p, err := to(layout.F32)
				if refused {
					if part := new(convert.CodesError); !errors.As(err, &part) {
						t.Fatalf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				sameWeights(t, plain, m, p)
				text := asJSON(t, metadata(t, plain))
				for _, claim := range []string{"quantization_config", "quant_method", "group_size", "expert_dtype"} {
					if strings.Contains(text, claim) || suffix == ".gguf" && m.Format() != layout.GGUF && strings.Contains(asJSON(t, metadata(t, copied)), claim) {
						t.Errorf("still says %s", claim)
					}
				}
			})
		}
	}
}

// sameWeights: every tensor of the model has the same values in the copy, and none is refused anew.
func sameWeights(t *testing.T, out, m *loader.Model, p *convert.Plan) {
	t.Helper()
	marks := 0
	for x := range m.Tensors() {
		if (x.Name() == "scaled_fp8" || strings.HasSuffix(x.Name(), ".scaled_fp8")) && len(p.Quantized) == 0 { // of ComfyUI, which would read floats as FP8
			marks++
			continue
		}
		y := tensor(t, out, x.Name())
		if x.Problem() != nil {
			if y.Problem() == nil {
				t.Errorf("%s: has values", x.Name())
			}
			continue
		}
		if len(x.Shape()) > 0 && !sameShape(y, x.Shape()) || !sameBits(values(t, y), values(t, x)) {
			t.Errorf("%s: %v %v, want %v", x.Name(), y.DType(), y.Shape(), x.Shape())
		}
		if logical := x.Scheme() != nil; logical && y.Scheme() == nil && slices.ContainsFunc(p.Quantized, func(q convert.Weight) bool { return q.Codes == x.Name() }) {
			t.Errorf("%s: is no weight any more", x.Name())
		}
	}
	if out.Len() != m.Len()-marks {
		t.Errorf("%d tensors, want %d", out.Len(), m.Len()-marks)
	}
}

// sameParts: every stored tensor has the same bytes in the copy.
func sameParts(t *testing.T, out, m *loader.Model) {
	t.Helper()
	a, b := open(t, out.Path(), &loader.Options{Stored: true}), open(t, m.Path(), &loader.Options{Stored: true})
	for x := range b.Tensors() {
		got, err := tensor(t, a, x.Name()).Bytes()
		want, err2 := x.Bytes()
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes, %v", x.Name(), err)
		}
	}
}

// TestStaleConfig: a configuration beside the new file that claims the old method is named.
func TestStaleConfig(t *testing.T) {
	m, config := checkpoint(t, "../testdata/quantized/fp8-block")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stale := func(name string, opts convert.Options) []string {
		opts.Config = config
		p, err := convert.NewPlan(context.Background(), m, filepath.Join(dir, name), &opts)
		if err != nil {
			t.Fatal(err)
		}
		return p.Stale
	}
	path := write("config.json", `{"quantization_config":{"quant_method":"fp8"}}`)
	if got := stale("out.safetensors", convert.Options{DType: layout.BF16}); !slices.Equal(got, []string{path}) {
		t.Errorf("%q", got)
	}
	for _, got := range [][]string{
		stale("out.safetensors", convert.Options{}),
		stale("out.apr", convert.Options{DType: layout.BF16}),
		stale("out.safetensors", convert.Options{DType: layout.BF16, Keep: func(name string) bool { return strings.Contains(name, "q_proj") }}),
	} {
		if len(got) != 0 {
			t.Errorf("%q", got)
		}
	}
	write("config.json", `{"hidden_size":64}`)
	path = write("hf_quant_config.json", `{"quantization":{"quant_algo":"FP8"}}`)
	if got := stale("out.safetensors", convert.Options{DType: layout.BF16}); !slices.Equal(got, []string{path}) {
		t.Errorf("%q", got)
	}
	gptq := write("quantize_config.json", `{"bits":4,"group_size":128}`) // of AutoGPTQ
	if got := stale("out.safetensors", convert.Options{DType: layout.BF16}); !slices.Equal(got, []string{path, gptq}) {
		t.Errorf("%q", got)
	}
}

// TestCompanionShard: the scale of GGUF's NVFP4 is found in another file of a split.
func TestCompanionShard(t *testing.T) {
	m, _ := checkpoint(t, "../testdata/quantized/gguf-nvfp4")
	p, err := convert.Write(t.Context(), m, filepath.Join(t.TempDir(), "out.gguf"), &convert.Options{ShardBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	out, apart := open(t, p.Path, &loader.Options{}), 0
	sameWeights(t, out, m, p)
	for x := range out.Tensors() {
		if parts := x.Parts(); len(parts) > 1 && parts[0].Tensor.File() != parts[1].Tensor.File() {
			apart++
		}
	}
	if apart == 0 {
		t.Error("every weight is in one file")
	}
}

// TestConfigIsReadOnce: opening a quantized checkpoint has read its configuration, of which there is one in memory.
func TestConfigIsReadOnce(t *testing.T) {
	m, config := checkpoint(t, "../testdata/quantized/fp8-block")
	if own := m.ConfigFile(); len(own) == 0 || &own[0] == &config[0] {
		t.Fatalf("%d keys, or the model's own", len(own))
	}
	for i, e := range m.ConfigFile() {
		own, isObject := e.Value.(layout.Metadata)
		if copied, _ := config[i].Value.(layout.Metadata); isObject && len(own) > 0 && &own[0] != &copied[0] {
			t.Errorf("%s was read twice", e.Key)
		}
	}
}
