//go:build unix

package attack

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// A witness is a quantized checkpoint and the values that its writer's own code reads.
type witness struct {
	parts
	name  string
	want  map[string]weight
	codes []string // names of tensors that hold codes
}

// A weight is a shape and values.
type weight struct {
	shape  []int
	values []float32
}

// beginQuantized changes one thing of checkpoints that are known: a companion or a key of the configuration. What comes out are
// the same values, others that the writer's own code reads too, or an error.
func beginQuantized(a *arena) func(*round) {
	type try struct {
		*witness
		changing
	}
	var tries []try
	for _, path := range must(filepath.Glob("../../../testdata/quantized/*/expected.safetensors")) {
		w := readWitness(filepath.Dir(path))
		for _, c := range w.parts.changes(w.codes) {
			tries = append(tries, try{w, c})
		}
	}
	if len(tries) < 100_000 {
		panic("testdata is not there")
	}
	rng := rand.New(rand.NewPCG(*seed, 0))
	rng.Shuffle(len(tries), func(i, j int) { tries[i], tries[j] = tries[j], tries[i] })
	return func(r *round) {
		const each = 50
		for i := range each {
			t := tries[(r.number*each+i)%len(tries)]
			r.hold(t.witness, t.changing)
		}
	}
}

// readWitness takes a fixture apart.
func readWitness(dir string) *witness {
	w := &witness{name: filepath.Base(dir), want: map[string]weight{}}
	w.metadata, w.objects = map[string]string{}, map[string]any{}
	path := filepath.Join(dir, "model.safetensors")
	for _, e := range must(os.ReadDir(dir)) {
		switch {
		case strings.HasSuffix(e.Name(), ".index.json"):
			path = filepath.Join(dir, e.Name())
		case strings.HasSuffix(e.Name(), ".json"):
			w.objects[e.Name()] = readObject(must(os.ReadFile(filepath.Join(dir, e.Name()))))
		case strings.HasSuffix(e.Name(), ".gguf"):
			path, w.gguf = filepath.Join(dir, e.Name()), true
		}
	}
	stored := must(loader.Open(path, &loader.Options{Stored: true}))
	defer stored.Close()
	for t := range stored.Tensors() {
		w.tensors = append(w.tensors, modeltest.Tensor{Name: t.Name(), DType: t.DType(), Shape: t.Shape(), Data: slices.Clone(must(t.Bytes()))})
		if o := readObject(must(t.Bytes())); o != nil && t.DType() == layout.U8 {
			w.objects[t.Name()] = o
		}
	}
	if !w.gguf {
		for key, v := range must(stored.Metadata()).All() {
			if s, ok := v.(string); ok {
				w.metadata[key] = s
				if o := readObject([]byte(s)); o != nil {
					w.objects[key] = o
				}
			}
		}
	}
	m := must(w.parts.open())
	defer m.Close()
	expected := must(loader.Open(filepath.Join(dir, "expected.safetensors"), nil))
	defer expected.Close()
	for x := range expected.Tensors() {
		t, err := m.Tensor(x.Name())
		if err != nil { // fused experts, whose parts are called .weight_packed and so on
			t = must(m.Tensor(x.Name() + ".weight"))
		}
		w.want[t.Name()] = weight{x.Shape(), slices.Clone(must(x.Float32s()))}
		for _, part := range t.Parts() {
			if part.Role == scheme.Codes {
				w.codes = append(w.codes, part.Tensor.Name())
			}
		}
	}
	if why := w.wrong(m, changing{}); why != "" {
		panic(w.name + ": " + why)
	}
	return w
}

// open opens a checkpoint in memory.
func (p *parts) open() (*loader.Model, error) {
	fsys := fstest.MapFS{}
	for name, b := range p.files() {
		fsys[name] = &fstest.MapFile{Data: b}
	}
	name := "model.safetensors"
	if p.gguf {
		name = "model.gguf"
	}
	return loader.OpenFS(fsys, name, nil)
}

// changed returns the checkpoint after a change.
func (w *witness) changed(c changing) *parts {
	p := w.parts
	p.objects = maps.Clone(p.objects)
	c.do(&p)
	return &p
}

// hold makes a change and reports values that nobody wrote.
func (r *round) hold(w *witness, c changing) {
	p := w.changed(c)
	m, err := p.open()
	r.count("changes", 1)
	if err != nil {
		r.count("refused", 1)
		return
	}
	defer m.Close()
	if why := w.judge(m, p, c); why != "" {
		r.errorf("%s, %s: %s", w.name, c.what, why)
	}
}

// wrong returns what is wrong with the values of a model that comes of a change, or "".
func (w *witness) wrong(m *loader.Model, c changing) string {
	for x := range m.Tensors() {
		got, err := x.Float32s()
		if err != nil {
			continue
		}
		want, isWeight := w.want[x.Name()]
		if f := x.Scheme(); f != nil && f.Scheme == scheme.BnbFP4 { // whose kernels give zeros of either sign
			got = withoutSigns(got)
			want.values = withoutSigns(want.values)
		}
		switch {
		case !isWeight && x.Scheme() != nil:
			return fmt.Sprintf("%s is a weight of %s, which there was not", x.Name(), x.Scheme().Scheme)
		case !isWeight && slices.Contains(w.codes, x.Name()):
			return fmt.Sprintf("%s, which are codes, are shown as numbers", x.Name())
		case !isWeight:
		case !c.same && !slices.Equal(x.Shape(), want.shape):
			return fmt.Sprintf("%s has the shape %v, not %v", x.Name(), x.Shape(), want.shape)
		case !modeltest.SameFloats(got, want.values):
			at := modeltest.Differ(got, want.values)
			if at < 0 {
				return fmt.Sprintf("%s has %d values, not %d", x.Name(), len(got), len(want.values))
			}
			return fmt.Sprintf("%s has %v at %d, not %v", x.Name(), got[at], at, want.values[at])
		}
	}
	return ""
}

// withoutSigns returns values without the sign of zeros.
func withoutSigns(values []float32) []float32 {
	values = slices.Clone(values)
	for i := range values {
		values[i] += 0
	}
	return values
}

// judge returns what is wrong with the values of a model that comes of a change, or "": they may be others if the table says so.
func (w *witness) judge(m *loader.Model, p *parts, c changing) string {
	why := w.wrong(m, c)
	if why == "" {
		return ""
	}
	for _, o := range others {
		if o.fixture.MatchString(w.name) && o.what.MatchString(c.what) {
			return o.holds(w, p, m, c)
		}
	}
	return why
}
