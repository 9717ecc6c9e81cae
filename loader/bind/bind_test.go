package bind_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
)

// tensor is one of a SafeTensors file, all zeros.
type tensor struct {
	name, dtype string
	bytes       int // of an element
	shape       []int
}

func f32(name string, shape ...int) tensor { return tensor{name, "F32", 4, shape} }

func open(t testing.TB, list ...tensor) *loader.Model {
	t.Helper()
	var entries []string
	size := 0
	for _, x := range list {
		n := x.bytes
		for _, d := range x.shape {
			n *= d
		}
		shape := strings.ReplaceAll(fmt.Sprint(x.shape), " ", ",")
		entries = append(entries, fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, x.name, x.dtype, shape, size, size+n))
		size += n
	}
	head := "{" + strings.Join(entries, ",") + "}"
	head += strings.Repeat(" ", -len(head)&7)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	file = append(append(file, head...), make([]byte, size)...)
	m, err := loader.OpenBytes(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

type norm struct {
	Weight []float32 `tensor:"weight" shape:"hidden"`
	Bias   []float32 `tensor:"bias,optional" shape:"hidden"`
}

type layer struct {
	Query loader.Tensor `tensor:"attention.query.weight" shape:"hidden,hidden" dtype:"F32,F16"`
	QKV   loader.Tensor `tensor:"attention.qkv.weight,optional" shape:"3*hidden,hidden"`
	Norm  norm          `tensor:"norm."`
}

type encoder struct {
	norm      `tensor:"final."`
	Words     []byte          `tensor:"words|bert.words" shape:"vocab,hidden"`
	Layers    []layer         `tensor:"layer.%d."`
	Queries   []loader.Tensor `tensor:"layer.%d.attention.query.weight"`
	Pair      [2][]float32    `tensor:"pair.%d" shape:"_"`
	Pooler    *norm           `tensor:"pooler."`
	Untouched int
}

// whole lists the tensors of an encoder with two layers and no pooler.
func whole() []tensor {
	return []tensor{
		f32("final.weight", 4), f32("bert.words", 10, 4), f32("pair.0", 1), f32("pair.1", 2),
		f32("layer.0.attention.query.weight", 4, 4), f32("layer.0.attention.qkv.weight", 12, 4), f32("layer.0.norm.weight", 4), f32("layer.0.norm.bias", 4),
		{"layer.1.attention.query.weight", "F16", 2, []int{4, 4}}, f32("layer.1.norm.weight", 4),
	}
}

func TestStruct(t *testing.T) {
	m := open(t, whole()...)
	dims := bind.Dims{"hidden": 4}
	e := encoder{Untouched: 7}
	if err := bind.Struct(&e, m, dims); err != nil {
		t.Fatal(err)
	}
	if len(e.Layers) != 2 || len(e.Queries) != 2 || len(e.Words) != 160 || len(e.Weight) != 4 || e.Bias != nil || len(e.Pair[1]) != 2 ||
		e.Pooler != nil || e.Untouched != 7 || e.Layers[0].Norm.Bias == nil || e.Layers[1].Norm.Bias != nil {
		t.Errorf("%+v", e)
	}
	if q := e.Layers[1].Query; q.Name() != "layer.1.attention.query.weight" || e.Queries[1] != q || e.Layers[0].QKV.Name() == "" {
		t.Errorf("%v", q.Name())
	}
	if want := (bind.Dims{"hidden": 4, "vocab": 10}); !reflect.DeepEqual(dims, want) {
		t.Errorf("%v, want %v", dims, want)
	}
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	m.Close()
	var n struct {
		Pooler *norm `tensor:"layer.0.norm."`
	}
	if err := bind.Struct(&n, l, nil); err != nil || n.Pooler == nil {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestMismatches has each kind once, and then all of them in one error.
func TestMismatches(t *testing.T) {
	replaced := func(x tensor) func([]tensor) []tensor {
		return func(list []tensor) []tensor {
			list[slices.IndexFunc(list, func(y tensor) bool { return y.name == x.name })] = x
			return list
		}
	}
	tests := []struct {
		change func([]tensor) []tensor
		field  string
		want   error
		text   string
	}{
		{replaced(f32("layer.0.norm.bias", 5)), "Layers[0].Norm.Bias", bind.ErrMismatch, `5, but hidden is 4 in`},
		{replaced(f32("layer.0.norm.weight", 4, 1)), "Layers[0].Norm.Weight", bind.ErrMismatch, "shape [4 1], want (hidden)"},
		{replaced(f32("layer.0.attention.qkv.weight", 8, 4)), "Layers[0].QKV", bind.ErrMismatch, "8 is not 3*hidden, and hidden is 4"},
		{replaced(tensor{"layer.1.attention.query.weight", "BF16", 2, []int{4, 4}}), "Layers[1].Query", bind.ErrMismatch, "dtype BF16, want F32,F16"},
		{func(list []tensor) []tensor { return list[:len(list)-1] }, "Layers[1].Norm.Weight", loader.ErrNotFound, `the model has ["layer.0.norm.weight"`},
		{func(list []tensor) []tensor { return append(list, f32("layer.4.norm.weight", 4)) }, "Layers", bind.ErrMismatch, "numbers up to 4, but none is 2"},
		{func(list []tensor) []tensor { return slices.Delete(list, 3, 4) }, "Pair[1]", loader.ErrNotFound, ""},
		{func(list []tensor) []tensor { return append(list, f32("pooler.bias", 4)) }, "Pooler.Weight", loader.ErrNotFound, "pooler.weight"},
	}
	var fields []string
	for _, tt := range tests {
		e := encoder{Untouched: 7}
		m := open(t, tt.change(whole())...)
		err := bind.Struct(&e, m, nil)
		var mismatch *bind.MismatchError
		if err == nil || !strings.HasPrefix(err.Error(), m.Path()+": "+tt.field) {
			t.Errorf("%s: %v", tt.field, err)
		}
		if !errors.As(err, &mismatch) || mismatch.Field != tt.field || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", tt.field, err)
		}
		if !reflect.DeepEqual(e, encoder{Untouched: 7}) {
			t.Errorf("%s: filled all the same", tt.field)
		}
		fields = append(fields, tt.field)
	}
	all := append(whole(), f32("pooler.bias", 4))
	for _, i := range []int{0, 1, 2, 3, 6} {
		all = tests[i].change(all)
	}
	err := bind.Struct(new(encoder), open(t, all...), nil)
	for _, i := range []int{0, 1, 2, 3, 6, 7} {
		if !strings.Contains(fmt.Sprint(err), fields[i]+": ") {
			t.Errorf("%s is not in %v", fields[i], err)
		}
	}
}

// TestDims requires numbers that the caller knows, as from a configuration.
func TestDims(t *testing.T) {
	dims := bind.Dims{"hidden": 8}
	err := bind.Struct(new(encoder), open(t, whole()...), dims)
	if !errors.Is(err, bind.ErrMismatch) || !strings.Contains(err.Error(), "4, but hidden is 8") || len(dims) != 1 {
		t.Errorf("%v, %v", err, dims)
	}
}

// TestUnfillable refuses structs that no model could fill.
func TestUnfillable(t *testing.T) {
	m := open(t, f32("a", 2))
	var number int
	for _, dst := range []any{
		nil, encoder{}, &number, (*encoder)(nil),
		&struct {
			A int `tensor:"a"`
		}{},
		&struct {
			a loader.Tensor `tensor:"a"`
		}{},
		&struct {
			A []loader.Tensor `tensor:"a"`
		}{},
		&struct {
			A loader.Tensor `tensor:"a" dtype:"F31"`
		}{},
		&struct {
			A loader.Tensor `tensor:"a" shape:"x*n"`
		}{},
	} {
		if err := bind.Struct(dst, m, nil); err == nil {
			t.Errorf("%T: no error", dst)
		}
	}
}

type (
	chain struct {
		Weight loader.Tensor `tensor:"weight"`
		Next   *chain        `tensor:"next."`
	}
	ring struct {
		Next *ring `tensor:""`
	}
	nest []nest
)

// TestRecursiveTypes has types that contain themselves: by a longer prefix they end with the names,
// by the same prefix they would not.
func TestRecursiveTypes(t *testing.T) {
	m := open(t, f32("weight", 1), f32("next.weight", 1), f32("next.next.weight", 1))
	var c chain
	if err := bind.Struct(&c, m, nil); err != nil || c.Next.Next.Weight.Name() != "next.next.weight" || c.Next.Next.Next != nil {
		t.Error(err, c)
	}
	for want, dst := range map[string]any{
		`Next.Next: tensor "": bind: a *bind_test.ring within itself needs a prefix of its own`: &ring{},
		"List: tensor \"next.%d\": bind: a field of type bind_test.nest cannot be filled": &struct {
			List nest `tensor:"next.%d"`
		}{},
	} {
		if err := bind.Struct(dst, m, nil); err == nil || err.Error() != m.Path()+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestQuantizedHasNoDType binds a weight of a quantized checkpoint with and without the tag dtype.
func TestQuantizedHasNoDType(t *testing.T) {
	m, err := loader.Open("../../testdata/quantized/gptq-4bit", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var values struct {
		W []float32 `tensor:"model.layers.0.mlp.gate.weight" shape:"7,33"`
	}
	if err := bind.Struct(&values, m, nil); err != nil || len(values.W) != 7*33 {
		t.Error(err, len(values.W))
	}
	var typed struct {
		W loader.Tensor `tensor:"model.layers.0.mlp.gate.weight" dtype:"F32,F16"`
	}
	err = bind.Struct(&typed, m, nil)
	if want := "the tensor is quantized (gptq) and has no dtype, want F32,F16"; !errors.Is(err, bind.ErrMismatch) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
