package scheme

import (
	"context"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// madeUp is a scheme that nobody writes, added as docs/architecture.md says: X.q has codes of 4 bits, X.s float16 scales of
// 32 columns, and X.b a bias for each scale. A value is code · scale + bias. The key "sign" of its configuration must be "none".
var madeUp = scheme{"made-up", (*weight).setMadeUp, []pattern{
	{codesEnd: ".q", codesTypes: u8, scaleEnds: []string{".s"}, scaleTypes: floats, nameTellsScheme: true, companions: companionsWithRole(Bias, ".b")},
}}

func (w *weight) setMadeUp() error {
	codes, scale, bias, sign := w.dims(w.part(Codes)), w.part(Scale), w.part(Bias), text(w.config.quantization, "sign")
	switch {
	case sign != "none":
		return unsupportedf("made-up codes with the sign %s", layout.Quote(sign))
	case len(codes) != 2 || codes[1]%16 != 0:
		return invalidf("codes of shape %v are no rows of groups of 32", codes)
	case bias == nil:
		return invalidf("made-up codes without a bias")
	case scale.DType != layout.F16 || bias.DType != layout.F16 || !slices.Equal(w.dims(scale), []uint64{codes[0], codes[1] / 16}):
		return invalidf("scale %s of %v %v does not fit codes of shape %v", w.quotedName(Scale), scale.DType, w.dims(scale), codes)
	}
	w.Code, w.Bias, w.GroupRows, w.GroupCols, w.HasOffsets, w.Ordered, w.scaleType = 4, true, 1, 32, true, true, scale.DType
	if err := w.checkShapeOfScale(Bias); err != nil {
		return err
	}
	return w.setMatrix(withLastDim(codes, 2*codes[1]))
}

// memory has a checkpoint whose parts are floats, by role.
type memory struct {
	config *Config
	floats map[Role][]float32
}

func (m memory) Config(context.Context) (*Config, error)                { return m.config, nil }
func (m memory) Contents(context.Context, []uint32) ([][]byte, error)   { return nil, nil }
func (m memory) Decodable(f *Form) error                                { return dequant.Grouped(f.Grouped).Check() }
func (m memory) Ignored([]byte) bool                                    { return false }
func (m memory) Constants(_ context.Context, r Role) ([]float32, error) { return m.floats[r], nil }
func (m memory) Bytes(context.Context, Role) ([]byte, error)            { return nil, nil }
func (m memory) Wrap(_ Role, err error) error                           { return err }
func (m memory) Floats(_ context.Context, r Role, _ layout.DType, dst []float32, first uint64) error {
	copy(dst, m.floats[r][first:])
	return nil
}

// TestMadeUpScheme adds a scheme, and reads a weight of it.
func TestMadeUpScheme(t *testing.T) {
	defer func(p []pattern) { patterns = p; delete(schemesOfMethod, "made-up") }(slices.Clone(patterns))
	register(madeUp)
	schemesOfMethod["made-up"] = []string{"made-up"}

	find := func(sign string, tensors ...layout.Tensor) Weight {
		names := layout.NewNames(len(tensors))
		for i := range tensors {
			n, _ := tensors[i].DType.Size(tensors[i].Shape)
			tensors[i].Raw = n
			names.Enter(layout.HashNameBytes(tensors[i].Name), i, func(int) bool { return false })
		}
		m := memory{config: ReadConfig(layout.Metadata{{Key: "quantization_config", Value: layout.Metadata{{Key: "quant_method", Value: "made-up"}, {Key: "sign", Value: sign}}}})}
		table, err := Find(t.Context(), tensors, names, (*layout.Limits)(nil).WithDefaults(), m)
		if err != nil || table.Len() != 1 {
			t.Fatal(err, table.Len())
		}
		return table.Weight(0)
	}
	codes := layout.Tensor{Name: []byte("x.q"), DType: layout.U8, Shape: []int{2, 32}}
	scale, bias := layout.Tensor{Name: []byte("x.s"), DType: layout.F16, Shape: []int{2, 2}}, layout.Tensor{Name: []byte("x.b"), DType: layout.F16, Shape: []int{2, 2}}
	w := find("none", codes, scale, bias)
	if w.Err != nil || string(w.Name) != "x.weight" || !slices.Equal(w.Shape, []int{2, 64}) {
		t.Fatalf("%s %v: %v", w.Name, w.Shape, w.Err)
	}
	for why, got := range map[string]Weight{
		"another sign": find("two", codes, scale, bias), "no bias": find("none", codes, scale), "no scale": find("none", codes, bias),
		"a group more": find("none", codes, layout.Tensor{Name: []byte("x.s"), DType: layout.F16, Shape: []int{2, 3}}, bias),
		"a companion":  find("none", codes, scale, bias, layout.Tensor{Name: []byte("x.zero"), DType: layout.F16, Shape: []int{2, 2}}),
	} {
		if got.Err == nil {
			t.Errorf("%s: no error", why)
		}
	}

	p := memory{floats: map[Role][]float32{Scale: {1, 2, 3, 4}, Bias: {0.5, 1.5, 2.5, 3.5}}}
	b, values := make([]byte, 64), make([]float32, 64)
	for i := range b {
		b[i] = byte(i*37 + i/7)
	}
	s := Scales{Scales: make([]float32, 2), Offsets: make([]float32, 2)}
	if err := w.ReadScales(t.Context(), p, &s, 2); err != nil { // of the second row
		t.Fatal(err)
	}
	if err := dequant.Grouped(w.Grouped).Expand(values, dequant.Parts{Codes: b[32:], Scales: s.Scales, Offsets: s.Offsets}, 64, 1); err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if q := float32(b[32+i/2] >> (4 * (i % 2)) & 15); v != q*p.floats[Scale][2+i/32]+p.floats[Bias][2+i/32] {
			t.Fatalf("value %d is %v, code %v", i, v, q)
		}
	}
}
