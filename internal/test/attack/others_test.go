//go:build unix

package attack

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// others are the changes after which programs read other values too, and what these values have to be: holds returns why they
// are not. Everything else that changes values has to be an error.
var others = []struct {
	fixture, what *regexp.Regexp
	holds         func(w *witness, after *parts, m *loader.Model, c changing) string
}{
	// Scales, zero points and biases have the type that their tensor says: every writer casts them to float32.
	{of(`.`), of(`(scales?|biases|zero|weight_scale(_inv)?|qscale_weight) is B?F16$`), equalTo(floatsOfType)},
	// So have codes of FP8 and int8 in files without a configuration (ComfyUI's _quantization_metadata is one), and codes of
	// AutoBitLinear: transformers 5.23.0 integrations/bitnet.py.
	{of(`^(comfy-scaled-fp8.*|fp8-scales|bitnet-auto-unpacked)$`), of(`weight is (F8_E5M2|I8|F16)$`), codesOfType},
	// llama.cpp's NVFP4 has the scale of a tensor only if a tensor of this name is there: src/llama-model.cpp.
	{of(`^gguf-nvfp4$`), of(`\.scale is (dropped|called .*)$`), equalTo(withoutScale)},
	// compressed-tensors 0.20.0 unpacks as many columns as weight_shape says: compressors/pack_quantized/base.py.
	{of(`^ct-(pack|mixed)`), of(`weight_shape has `), columnsInCommon},
	// Zero points of v1 are stored less one; without a name both GPTQModel 7.7.0 and transformers 5.23.0 take v1 (quantization/config.py,
	// utils/quantization_config.py), and so does auto-round 0.16.1 for auto-round's (inference/convert_model.py).
	{of(`^gptq-(2bit-v2|3bit-v2-column|8bit-v2-act-order|v2-quantize-config)$`), of(`checkpoint_format (is called|moves to) |has no checkpoint_format|has checkpoint_format: ("gptq"|null)|has quant_method: "auto-round"`), stepOf(-1)},
	{of(`^(autoround-as-gptq-asym|gptq-3bit-act-order|gptq-4bit|autogptq-quantize-config)$`), of(`has (checkpoint_)?format: "(gptq_v2|GPTQ_V2)"`), stepOf(1)},
	{of(`^autoround-gptq-asym$`), of(`has packing_format: "auto_round(:gptqmodel)?"`), stepOf(1)},
	// Codes that are not symmetric have the zero points that are stored, in the convention that is said.
	{of(`^gptq-sym-v2-zeros$`), of(`has sym: false`), stepOf(-1)},
	// gptq_p has codes of 3 bits in planes; other codes are those of v2.
	{of(`^(autoround-as-gptq-asym|gptq-3bit-act-order|gptq-3bit-v2-column|gptq-4bit|autogptq-quantize-config)$`), of(`has (checkpoint_)?format: "gptq_p"`), anyValues},
	{of(`^gptq-planes$`), of(`checkpoint_format`), anyValues},
	// Without an index auto-round's layer makes one of group_size: auto_round_extension/torch/qlinear_torch.py.
	{of(`^autoround-(a?sym|gptq-asym)$`), of(`has group_size: 48$`), equalTo(groupsOf48)},
	// transformers 5.23.0 BitNetQuantConfig: linear_class is bitlinear, which divides, if it is not said.
	{of(`^bitnet(-auto)?$`), of(`linear_class`), scaleTurned},
	// Nothing in a file but version tells dense words from words with unused bits that are as many; 0.20.0 and 0.12.2 each read
	// what they write. The bits are what num_bits says.
	{of(`^ct-pack-(odd|words)$`), of(`has version: `), anyValues},
	{of(`^ct-pack-(odd|act-order)$`), of(`has num_bits: `), anyValues},
}

func of(expression string) *regexp.Regexp { return regexp.MustCompile(expression) }

// anyValues holds for all values: to compute them is to decode the scheme.
func anyValues(*witness, *parts, *loader.Model, changing) string { return "" }

// equalTo returns what holds if values are those of another checkpoint that means the same.
func equalTo(other func(w *witness, after *parts, what string) *parts) func(*witness, *parts, *loader.Model, changing) string {
	return func(w *witness, after *parts, m *loader.Model, c changing) string {
		same := must(other(w, after, c.what).open())
		defer same.Close()
		for x := range m.Tensors() {
			got, err := x.Float32s()
			if _, isWeight := w.want[x.Name()]; err != nil || !isWeight {
				continue
			}
			if want := must(must(same.Tensor(x.Name())).Float32s()); !modeltest.SameFloats(got, want) {
				return x.Name() + " has not the values of the checkpoint that means the same"
			}
		}
		return ""
	}
}

// edit returns a checkpoint with a tensor replaced.
func (p *parts) edit(name string, do func(*modeltest.Tensor)) *parts {
	q := *p
	q.tensors = slices.Clone(p.tensors)
	for i := range q.tensors {
		if q.tensors[i].Name == name {
			do(&q.tensors[i])
		}
	}
	return &q
}

// stored returns the values of a stored tensor.
func (p *parts) stored(name string) []float32 {
	for _, t := range p.tensors {
		if t.Name == name {
			m := must(loader.OpenBytes(modeltest.SafeTensors(t), &loader.Options{Stored: true}))
			defer m.Close()
			return slices.Clone(must(must(m.Tensor(name)).Float32s()))
		}
	}
	return nil
}

// floatsOfType returns the checkpoint whose changed tensor has the same values as F32.
func floatsOfType(_ *witness, after *parts, what string) *parts {
	name, _, _ := strings.Cut(what, " ")
	return after.edit(name, func(t *modeltest.Tensor) { t.DType, t.Data = layout.F32, modeltest.Float32s(after.stored(name)...) })
}

// withoutScale returns the checkpoint whose scale is 1.
func withoutScale(w *witness, _ *parts, what string) *parts {
	name, _, _ := strings.Cut(what, " ")
	return w.edit(name, func(t *modeltest.Tensor) {
		t.Data = modeltest.Float32s(slices.Repeat([]float32{1}, len(t.Data)/4)...)
	})
}

// groupsOf48 returns the checkpoint that has the index of groups of 48 columns.
func groupsOf48(w *witness, after *parts, _ string) *parts {
	p := *after
	p.objects = w.objects
	for name, want := range w.want {
		layer := strings.TrimSuffix(name, ".weight")
		o := p.objects["config.json"].(object)["quantization_config"].(object)
		over, _ := o["extra_config"].(object)
		said := after.objects["config.json"].(object)["quantization_config"].(object)
		changed, _ := said["extra_config"].(object)
		if own, _ := changed[layer].(object); own["group_size"] == nil && equal(over, changed) == false {
			continue
		}
		if want.shape[1] != 64 {
			continue
		}
		var index []byte
		for i := range want.shape[1] {
			index = append(index, byte(i/48), 0, 0, 0)
		}
		p.tensors = append(slices.Clip(p.tensors), modeltest.Tensor{Name: layer + ".g_idx", DType: layout.I32, Shape: []int{len(index) / 4}, Data: index})
	}
	return &p
}

// weightsOf calls f with the values that each weight has and had, and returns the first answer.
func (w *witness) weightsOf(m *loader.Model, f func(name string, got []float32, want weight) string) string {
	for _, name := range slices.Sorted(maps.Keys(w.want)) {
		x, err := m.Tensor(name)
		if err != nil {
			continue
		}
		got, err := x.Float32s()
		if err != nil || modeltest.SameFloats(got, w.want[name].values) {
			continue
		}
		if why := f(name, got, w.want[name]); why != "" {
			return why
		}
	}
	return ""
}

// near reports whether two values are the same but for rounding.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-5*(math.Abs(a)+math.Abs(b))+1e-30 }

// codesOfType holds if values are in proportion to those of codes.
func codesOfType(w *witness, after *parts, m *loader.Model, _ changing) string {
	return w.weightsOf(m, func(name string, got []float32, want weight) string {
		codes, before := after.stored(name), w.stored(name)
		for i, v := range got {
			if !near(float64(v)*float64(before[i]), float64(want.values[i])*float64(codes[i])) && codes[i] == codes[i] && before[i] != 0 {
				return fmt.Sprintf("%s has %v at %d, of the code %v, not %v of %v", name, v, i, codes[i], want.values[i], before[i])
			}
		}
		return ""
	})
}

// columnsInCommon holds if values of the columns that there were are the same.
func columnsInCommon(w *witness, _ *parts, m *loader.Model, _ changing) string {
	return w.weightsOf(m, func(name string, got []float32, want weight) string {
		shape := must(m.Tensor(name)).Shape()
		cols, had := shape[len(shape)-1], want.shape[len(want.shape)-1]
		if len(got)/cols != len(want.values)/had {
			return name + " has other rows"
		}
		for i, v := range got {
			if c := i % cols; c < had && v != want.values[i/cols*had+c] {
				return fmt.Sprintf("%s has %v in row %d, column %d, not %v", name, v, i/cols, c, want.values[i/cols*had+c])
			}
		}
		return ""
	})
}

// stepOf returns what holds if every value is by a scale of its row more, or less.
func stepOf(sign float64) func(*witness, *parts, *loader.Model, changing) string {
	return func(w *witness, _ *parts, m *loader.Model, _ changing) string {
		return w.weightsOf(m, func(name string, got []float32, want weight) string {
			rows, cols := want.shape[0], want.shape[1]
			scales := w.stored(strings.TrimSuffix(name, ".weight") + ".scales")
			for i, v := range got {
				step := (float64(v) - float64(want.values[i])) * sign
				if !slices.ContainsFunc(slices.Collect(columnOf(scales, i/cols, rows)), func(s float32) bool { return math.Abs(step-float64(s)) <= 1e-5*float64(s) }) {
					return fmt.Sprintf("%s has %v at %d, no scale from %v", name, v, i, want.values[i])
				}
			}
			return ""
		})
	}
}

// columnOf yields the elements of a column.
func columnOf(matrix []float32, column, columns int) func(yield func(float32) bool) {
	return func(yield func(float32) bool) {
		for i := column; i < len(matrix); i += columns {
			if !yield(matrix[i]) {
				return
			}
		}
	}
}

// scaleTurned holds if codes are multiplied by what they were divided by, or the other way round.
func scaleTurned(w *witness, after *parts, m *loader.Model, _ changing) string {
	return w.weightsOf(m, func(name string, got []float32, want weight) string {
		s := float64(w.stored(name + "_scale")[0])
		if w.name == "bitnet-auto" {
			s = 1 / s
		}
		for i, v := range got {
			if !near(float64(v), float64(want.values[i])*s*s) {
				return fmt.Sprintf("%s has %v at %d, not %v", name, v, i, float64(want.values[i])*s*s)
			}
		}
		return ""
	})
}
