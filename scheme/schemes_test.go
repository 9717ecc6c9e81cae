package scheme_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/fuzz"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// written is a weight as its scheme's own writer has stored it.
type written struct {
	fixture string
	config  string // JSON
	tensors []stored
	roles   []scheme.Role // of tensors
}

// fixtures lists up to three weights of each fixture, by their scheme. Each fixture's values are compared with those of its
// writer.
func fixtures(t *testing.T) map[string][]written {
	all := make(map[string][]written)
	for _, path := range glob(t, "../testdata/quantized/*/expected.safetensors") {
		dir := filepath.Dir(path)
		want, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		for _, path := range glob(t, dir+"/model*") {
			if strings.HasSuffix(path, ".json") {
				continue
			}
			m, err := loader.Open(path, nil)
			if err != nil {
				continue // a shard
			}
			defer m.Close()
			taken := make(map[string]int)
			for x := range m.Tensors() {
				f := x.Scheme()
				if f == nil || x.Elements() == 0 {
					continue
				}
				compare(t, dir, want, x)
				if taken[f.Scheme]++; taken[f.Scheme] > 3 {
					continue
				}
				w := written{fixture: filepath.Base(dir), config: configOf(dir)}
				for _, p := range x.Parts() {
					b, err := p.Tensor.Bytes()
					if err != nil {
						t.Fatal(err)
					}
					w.tensors = append(w.tensors, stored{p.Tensor.Name(), p.Tensor.DType(), p.Tensor.Shape(), slices.Clone(b)})
					w.roles = append(w.roles, p.Role)
				}
				if outcome(find(t, w.config, w.tensors...)) == f.Scheme { // else the metadata of the file say more
					all[f.Scheme] = append(all[f.Scheme], w)
				}
			}
		}
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return list
}

// configOf returns what the files of a fixture say, as config.json says it.
func configOf(dir string) string {
	if b, err := os.ReadFile(filepath.Join(dir, "config.json")); err == nil && bytes.Contains(b, []byte("quanti")) {
		return string(b)
	}
	for _, file := range scheme.Files {
		b, err := os.ReadFile(filepath.Join(dir, file.Name))
		if err != nil {
			continue
		}
		if md, err := jsontext.Parse(b, layout.Unknown, 0, file.Name, defaults); err == nil {
			b, _ = layout.EncodeJSON(file.ConfigJSON(md))
			return string(b)
		}
	}
	return "{}"
}

// compare compares the values of a weight with those that its writer's own code reads.
func compare(t *testing.T, dir string, want *loader.Model, x loader.Tensor) {
	t.Helper()
	expected, err := want.Tensor(x.Name())
	if err != nil {
		if expected, err = want.Tensor(strings.TrimSuffix(x.Name(), ".weight")); err != nil {
			t.Fatalf("%s: %s has no expected values", dir, x.Name())
		}
	}
	a, err := x.Float32s()
	b, err2 := expected.Float32s()
	if err != nil || err2 != nil || !slices.Equal(a, b) {
		t.Errorf("%s: %s has other values than its writer reads (%v, %v)", dir, x.Name(), err, err2)
	}
}

// TestSchemes walks the registry. A scheme has a fixture by its writer, whose values are equal; a page; and every way to
// bend or cut a part of the fixture's weights is an error. Whatever bytes are changed, nothing panics.
func TestSchemes(t *testing.T) {
	all := fixtures(t)
	for name := range scheme.Decoded() {
		t.Run(name, func(t *testing.T) {
			if len(all[name]) == 0 {
				t.Fatal("no folder of testdata/quantized has a weight of this scheme, by its original writer")
			}
			page := strings.Replace(name, "fp4", "nf4", 1)
			if !strings.HasPrefix(name, "bnb-") {
				page = name
			}
			if _, err := os.Stat("../docs/quantized/" + page + ".md"); err != nil {
				t.Error(err)
			}
			bent, cut := 0, 0
			for _, w := range all[name] {
				bent += w.misfits(t, name)
				cut += w.truncations(t)
				w.fuzz()
			}
			if bent == 0 {
				t.Error("no part can be bent")
			}
			t.Logf("%d weights, %d misfits, %d truncations", len(all[name]), bent, cut)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !scheme.Decoded()[name] {
			t.Errorf("%s is not registered", name)
		}
	}
}

// loose are roles of parts whose shapes decide nothing.
var loose = []scheme.Role{scheme.Codes, scheme.InputScale, scheme.Setting, scheme.QuantState, scheme.Layout}

// misfits gives each part another size in each dimension, or another type, and takes the scale away: none of these is a weight.
func (w written) misfits(t *testing.T, name string) (n int) {
	t.Helper()
	refuse := func(what string, list []stored) {
		t.Helper()
		n++
		if got := outcome(find(t, w.config, list...)); got == name {
			t.Errorf("%s: %s is decoded with %s", w.fixture, w.tensors[0].name, what)
		}
	}
	for i, x := range w.tensors {
		if slices.Contains(loose, w.roles[i]) || name == scheme.GPTQ && w.roles[i] == scheme.GroupIndex { // which tells the columns
			continue
		}
		for dim := range x.shape {
			for _, by := range []int{-1, 1} {
				list := slices.Clone(w.tensors)
				list[i].shape = slices.Clone(x.shape)
				list[i].shape[dim] += by
				raw, _ := x.dtype.Size(list[i].shape)
				list[i].content = append(slices.Clone(x.content), make([]byte, len(x.content))...)[:raw]
				refuse(fmt.Sprintf("%s of shape %v, not %v", x.name, list[i].shape, x.shape), list)
			}
		}
		list := slices.Clone(w.tensors)
		list[i].dtype = layout.C64
		refuse(fmt.Sprintf("%s of another type", x.name), list)
		if w.roles[i] == scheme.Scale {
			refuse("no scale", slices.Delete(slices.Clone(w.tensors), i, i+1))
		}
	}
	return n
}

// truncations cuts the parts whose contents tell the shape, at every byte or element.
func (w written) truncations(t *testing.T) (n int) {
	t.Helper()
	for i, x := range w.tensors {
		if w.roles[i] != scheme.QuantState && w.roles[i] != scheme.Shape {
			continue
		}
		for size := range x.shape[0] {
			list := slices.Clone(w.tensors)
			list[i].shape, list[i].content = []int{size}, x.content[:size*x.dtype.BlockBytes()]
			if table := find(t, w.config, list...); table.Len() > 0 && table.Err(0) == nil {
				t.Errorf("%s: %s is decoded with %d elements of %s", w.fixture, w.tensors[0].name, size, x.name)
			}
			n++
		}
	}
	return n
}

// fuzz changes bytes of the text by which package fuzz knows the weight.
func (w written) fuzz() {
	var text bytes.Buffer
	text.WriteString(strings.ReplaceAll(w.config, "\n", " "))
	for i, x := range w.tensors {
		fmt.Fprintf(&text, "\n%s %v %s ", x.name, x.dtype, strings.Trim(strings.ReplaceAll(fmt.Sprint(x.shape), " ", ","), "[]"))
		if w.roles[i] == scheme.QuantState || w.roles[i] == scheme.Shape || w.roles[i] == scheme.Setting {
			text.Write(x.content)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := slices.Clone(text.Bytes())
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] = "0123456789,.\"{}-_weightsca\n \x00\xff"[rng.IntN(30)]
		}
		fuzz.FuzzScheme(b)
	}
}

// TestSharedForms finds the forms of checkpoints of many layers, which are alike but for one change in some of them. Each weight must have
// the shape, the form and the error that it has if no weight shares the form of another.
func TestSharedForms(t *testing.T) {
	cases := append(slices.Clip(known), struct { // a configuration that names layers
		scheme, config string
		tensors        []stored
	}{"int-quantized", config(`"quant_method":"compressed-tensors","version":"0.20.0","config_groups":{` +
		`"a":{"targets":["re:l1.*"],"weights":{"num_bits":8,"group_size":32}},"b":{"targets":["re:l[2-4].*"],"weights":{"num_bits":8,"group_size":64}}}`),
		[]stored{{"a.weight", layout.I8, []int{8, 64}, nil}, {"a.weight_scale", layout.F32, []int{8, 2}, nil}}})
	for _, list := range fixtures(t) {
		for _, w := range list {
			cases = append(cases, struct {
				scheme, config string
				tensors        []stored
			}{w.fixture, w.config, w.tensors})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	forms, failures := 0, 0
	for _, c := range cases {
		var layers []stored
		for layer := range 40 {
			changed := rng.IntN(3 * len(c.tensors)) // of most layers none
			for i, x := range c.tensors {
				x.name = fmt.Sprintf("l%d.%s", layer, x.name)
				if i == changed {
					x = oneChange(rng, x)
				}
				layers = append(layers, x)
			}
		}
		shared := weights(find(t, c.config, layers...))
		var alone []scheme.Weight
		scheme.WithoutSharedForms(func() { alone = weights(find(t, c.config, layers...)) })
		if len(shared) != len(alone) {
			t.Fatalf("%s: %d weights, not %d", c.scheme, len(shared), len(alone))
		}
		for i, w := range alone {
			if got := shared[i]; fmt.Sprint(got.Err) != fmt.Sprint(w.Err) || !slices.Equal(got.Shape, w.Shape) || !reflect.DeepEqual(got.Form, w.Form) {
				t.Errorf("%s: %s is %v %+v, %v; not %v %+v, %v", c.scheme, w.Name, got.Shape, got.Form, got.Err, w.Shape, w.Form, w.Err)
			}
			if w.Err == nil {
				forms++
			} else {
				failures++
			}
		}
	}
	if forms < 1000 || failures < 100 {
		t.Errorf("%d forms and %d errors", forms, failures)
	}
}

// oneChange returns x with another dtype, another dimension, or another byte of its content.
func oneChange(rng *rand.Rand, x stored) stored {
	switch kind := rng.IntN(3); {
	case kind == 0 && len(x.content) > 0:
		x.content = slices.Clone(x.content)
		x.content[rng.IntN(len(x.content))] ^= 1 << rng.IntN(8)
	case kind == 1 && len(x.shape) > 0:
		x.shape = slices.Clone(x.shape)
		x.shape[rng.IntN(len(x.shape))] *= 2
	default:
		x.dtype = layout.BF16
	}
	return x
}
