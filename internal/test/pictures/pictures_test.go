package pictures

import (
	"encoding/binary"
	"encoding/xml"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

var update = flag.Bool("update", false, "write the pictures")

// A field is bits of a unit, and the element that they are.
type field struct {
	low, bits int
	element   uint64
}

// A picture shows units of a weight's codes: words of 32 bits, or bytes.
type picture struct {
	name, dir, tensor string
	unit, units       int
	fields            func(unit int) []field
	// value computes an element from its code and the parts, and says how.
	value func(p parts, f field, code uint) (float32, string)
}

// parts reads the parts of a weight.
type parts struct {
	t    *testing.T
	list []loader.Part
}

func (p parts) bytes(role scheme.Role) []byte {
	p.t.Helper()
	for _, part := range p.list {
		if part.Role == role {
			b, err := part.Tensor.Bytes()
			if err != nil {
				p.t.Fatal(err)
			}
			return b
		}
	}
	p.t.Fatalf("no %v", role)
	return nil
}

func (p parts) float(role scheme.Role, i int) float32 {
	p.t.Helper()
	for _, part := range p.list {
		if part.Role == role {
			v, err := part.Tensor.Stored().Float32s()
			if err != nil {
				p.t.Fatal(err)
			}
			return v[i]
		}
	}
	p.t.Fatalf("no %v", role)
	return 0
}

// nibbles are the eight fields of a word whose nibbles are elements a step apart, in the given order.
func nibbles(step uint64, order ...uint64) func(int) []field {
	return func(int) (list []field) {
		for i, k := range order {
			list = append(list, field{4 * i, 4, k * step})
		}
		return list
	}
}

// pairs are the two nibbles of bytes, the low one first or not, apart elements from each other.
func pairs(lowFirst bool, apart uint64) func(int) []field {
	return func(unit int) []field {
		first := uint64(unit)
		if apart == 1 {
			first *= 2
		}
		low, high := field{0, 4, first}, field{4, 4, first + apart}
		if !lowFirst {
			low.element, high.element = high.element, low.element
		}
		return []field{low, high}
	}
}

func bytes8(unit int) []field { return []field{{0, 8, uint64(unit)}} }

var e2m1 = [8]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}

func e2m1Of(code uint) float32 {
	v := e2m1[code&7]
	if code > 7 {
		v = -v
	}
	return v
}

// e4m3Of follows the table of OCP's 8-bit floats: a sign, four bits of exponent with bias 7, three of mantissa.
func e4m3Of(b byte) float32 {
	exponent, mantissa := int(b>>3&15), float64(b&7)
	v := math.Ldexp(8+mantissa, exponent-10)
	if exponent == 0 {
		v = math.Ldexp(mantissa, -9)
	}
	if b > 127 {
		v = -v
	}
	return float32(v)
}

// lookup reads bitsandbytes' table, as quant_map has it.
func lookup(p parts, f field, code uint) (float32, string) {
	entry, s := p.float(scheme.QuantMap, int(code)), p.float(scheme.Scale, int(f.element/64))
	return entry * s, fmt.Sprintf("quant_map[%d] · absmax[%d] = %v · %v", code, f.element/64, entry, s)
}

const layers = "model.layers.0."

var pictures = []picture{
	{"awq", "awq-gemm", layers + "self_attn.q_proj.weight", 32, 1, nibbles(128, 0, 2, 4, 6, 1, 3, 5, 7), func(p parts, f field, code uint) (float32, string) {
		row := int(f.element / 128)
		place := []int{0, 4, 1, 5, 2, 6, 3, 7}[row]
		z := binary.LittleEndian.Uint32(p.bytes(scheme.ZeroPoint)) >> (4 * place) & 15
		s := p.float(scheme.Scale, row)
		return (float32(code) - float32(z)) * s, fmt.Sprintf("(%d − %d) · scales[0,%d] = (%d − %d) · %v", code, z, row, code, z, s)
	}},
	{"gptq", "gptq-4bit", layers + "self_attn.k_proj.weight", 32, 1, nibbles(1, 0, 1, 2, 3, 4, 5, 6, 7), func(p parts, f field, code uint) (float32, string) {
		z := (binary.LittleEndian.Uint32(p.bytes(scheme.ZeroPoint))&15 + 1) & 15
		s := p.float(scheme.Scale, 0)
		return (float32(code) - float32(z)) * s, fmt.Sprintf("(%d − %d) · scales[g_idx[%d],0], where qzeros has %d − 1 = (%d − %d) · %v", code, z, f.element, z, code, z, s)
	}},
	{"pack-quantized", "ct-pack-4", layers + "self_attn.q_proj.weight", 32, 1, nibbles(1, 0, 1, 2, 3, 4, 5, 6, 7), func(p parts, _ field, code uint) (float32, string) {
		s := p.float(scheme.Scale, 0)
		return (float32(code) - 8) * s, fmt.Sprintf("(%d − 8) · weight_scale[0,0] = (%d − 8) · %v", code, code, s)
	}},
	{"mlx-affine", "mlx-4bit", layers + "self_attn.q_proj.weight", 32, 1, nibbles(1, 0, 1, 2, 3, 4, 5, 6, 7), func(p parts, _ field, code uint) (float32, string) {
		s, b := p.float(scheme.Scale, 0), p.float(scheme.Bias, 0)
		product := float32(code) * s
		return product + b, fmt.Sprintf("%d · scales[0,0] + biases[0,0] = %d · %v + %v", code, code, s, b)
	}},
	{"bnb-nf4", "bnb-nf4", layers + "self_attn.q_proj.weight", 8, 4, pairs(false, 1), lookup},
	{"bnb-int8", "bnb-int8", layers + "self_attn.k_proj.weight", 8, 4, bytes8, func(p parts, _ field, code uint) (float32, string) {
		s := p.float(scheme.Scale, 0)
		product := float32(int8(code)) * s
		return product * (float32(1) / 127), fmt.Sprintf("(%d · SCB[0]) · 1/127 = (%d · %v) · 1/127", int8(code), int8(code), s)
	}},
	{"int-quantized", "ct-int", layers + "self_attn.k_proj.weight", 8, 4, bytes8, func(p parts, _ field, code uint) (float32, string) {
		s, z := p.float(scheme.Scale, 0), p.float(scheme.ZeroPoint, 0)
		return (float32(int8(code)) - z) * s, fmt.Sprintf("(%d − weight_zero_point[0,0]) · weight_scale[0,0] = (%d − %v) · %v", int8(code), int8(code), z, s)
	}},
	{"fp8", "fp8-block", layers + "self_attn.q_proj.weight", 8, 4, bytes8, func(p parts, _ field, code uint) (float32, string) {
		v, s := e4m3Of(byte(code)), p.float(scheme.Scale, 0)
		return v * s, fmt.Sprintf("E4M3(0x%02x) · weight_scale_inv[0,0] = %v · %v", code, v, s)
	}},
	{"nvfp4", "modelopt-nvfp4", layers + "self_attn.k_proj.weight", 8, 4, pairs(true, 1), func(p parts, _ field, code uint) (float32, string) {
		v, s, g := e2m1Of(code), e4m3Of(p.bytes(scheme.Scale)[0]), p.float(scheme.GlobalScale, 0)
		combined := s * g
		return v * combined, fmt.Sprintf("E2M1(%d) · (weight_scale[0,0] · weight_scale_2) = %v · (%v · %v)", code, v, s, g)
	}},
	{"mxfp4", "gpt-oss", "model.layers.1.mlp.experts.gate_up_proj", 8, 4, pairs(true, 1), func(p parts, _ field, code uint) (float32, string) {
		v, e := e2m1Of(code), int(p.bytes(scheme.Scale)[0])
		return float32(math.Ldexp(float64(v), e-127)), fmt.Sprintf("E2M1(%d) · 2^(scales[0,0,0] − 127) = %v · 2^(%d − 127)", code, v, e)
	}},
	{"bitnet", "bitnet", layers + "self_attn.q_proj.weight", 8, 4, func(unit int) (list []field) {
		for slab := range 4 {
			list = append(list, field{2 * slab, 2, uint64(unit + slab*8*128)})
		}
		return list
	}, func(p parts, _ field, code uint) (float32, string) {
		s := p.float(scheme.Scale, 0)
		return (float32(code) - 1) / s, fmt.Sprintf("(%d − 1) / weight_scale = (%d − 1) / %v", code, code, s)
	}},
	{"hqq", "hqq-4bit", layers + "self_attn.q_proj.weight", 8, 4, pairs(false, 2048), func(p parts, f field, code uint) (float32, string) {
		group := int(f.element / 64)
		s, z := p.float(scheme.Scale, group), p.float(scheme.ZeroPoint, group)
		return (float32(code) - z) * s, fmt.Sprintf("(%d − zero[%d]) · scale[%[2]d] = (%[1]d − %[3]v) · %[4]v", code, group, z, s)
	}},
}

// TestPictures holds what the pictures say against the loader, and the pictures against docs/quantized.
func TestPictures(t *testing.T) {
	for _, pic := range pictures {
		t.Run(pic.name, func(t *testing.T) {
			m, err := loader.Open(filepath.Join("../../../testdata/quantized", pic.dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			l, err := m.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			x, err := l.Tensor(pic.tensor)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("../../../docs/quantized", pic.name+".svg")
			got := draw(t, pic, x)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || string(want) != got {
				t.Errorf("%s is not what go test ./internal/test/pictures -update draws (%v)", path, err)
			}
		})
	}
}

const (
	width, margin = 760, 20
	rowHeight     = 22
)

// A drawing is an SVG picture, from top to bottom.
type drawing struct {
	strings.Builder
	y int
}

func (d *drawing) text(class string, x, y int, s string) {
	fmt.Fprintf(d, `<text class="%s" x="%d" y="%d">`, class, x, y)
	xml.EscapeText(d, []byte(s))
	d.WriteString("</text>\n")
}

func draw(t *testing.T, pic picture, x loader.Tensor) string {
	p := parts{t, x.Parts()}
	codes := p.bytes(scheme.Codes)
	d := &drawing{y: 30}
	d.text("h", margin, d.y, fmt.Sprintf("%s %v: its parts in testdata/quantized/%s", x.Name(), x.Shape(), pic.dir))
	for i, part := range p.list {
		if part.Role == scheme.Setting { // HQQ has a dozen
			continue
		}
		d.y += rowHeight
		fmt.Fprintf(d, `<rect class="p%d" x="%d" y="%d" width="12" height="12"/>`+"\n", min(i, 2), margin, d.y-10)
		d.text("", margin+20, d.y, part.Role.String())
		d.text("m", 130, d.y, part.Tensor.Name())
		d.text("m e", width-margin, d.y, fmt.Sprintf("%v %v", part.Tensor.DType(), part.Tensor.Shape()))
	}
	d.y += 2 * rowHeight
	kind := "word, the highest bit on the left"
	if pic.unit == 8 {
		kind = "four bytes, of each the highest bit on the left"
	}
	size := pic.units * pic.unit / 8
	d.text("h", margin, d.y, fmt.Sprintf("The first %s: % x", kind, codes[:size]))
	d.y += 14
	shape := x.Shape()
	cols := uint64(shape[len(shape)-1])
	name := func(e uint64) string {
		index := strconv.FormatUint(e%cols, 10)
		for i, rest := len(shape)-2, e/cols; i >= 0; i-- {
			index, rest = strconv.FormatUint(rest%uint64(shape[i]), 10)+","+index, rest/uint64(shape[i])
		}
		return "W[" + index + "]"
	}
	bit := (width - 2*margin) / 32
	type shown struct {
		f    field
		code uint
	}
	var list []shown
	for unit := range pic.units {
		word := uint64(codes[unit])
		if pic.unit == 32 {
			word = uint64(binary.LittleEndian.Uint32(codes))
		}
		for _, f := range pic.fields(unit) {
			code := uint(word >> f.low & (1<<f.bits - 1))
			list = append(list, shown{f, code})
			left := margin + bit*(unit*pic.unit+pic.unit-f.low-f.bits)
			fmt.Fprintf(d, `<rect class="f" x="%d" y="%d" width="%d" height="44"/>`+"\n", left, d.y, bit*f.bits)
			middle := left + bit*f.bits/2
			d.text("c n", middle, d.y+18, name(f.element))
			d.text("c m", middle, d.y+36, fmt.Sprintf("%0*b", f.bits, code))
			d.text("c b", middle, d.y+57, fmt.Sprintf("%d–%d", f.low+f.bits-1, f.low))
		}
		if pic.unit == 8 {
			fmt.Fprintf(d, `<rect class="u" x="%d" y="%d" width="%d" height="44"/>`+"\n", margin+8*bit*unit, d.y, 8*bit)
		}
	}
	d.y += 70
	for i, s := range list {
		want := make([]float32, 1)
		if err := x.DequantizeRange(want, s.f.element); err != nil {
			t.Fatal(err)
		}
		got, how := pic.value(p, s.f, s.code)
		if math.Float32bits(got) != math.Float32bits(want[0]) {
			t.Errorf("%s is %v by the picture (%s), and %v", name(s.f.element), got, how, want[0])
		}
		if i < 3 {
			d.y += rowHeight
			d.text("m", margin, d.y, fmt.Sprintf("%s = %s = %v", name(s.f.element), how, got))
		}
	}
	d.y += margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<title>The bytes of %[3]s</title>
<style>text{font:13px system-ui,sans-serif;fill:#1b2230}.h{font-weight:600}.m{font:12px ui-monospace,Consolas,monospace}.n{font-size:12px}
.b{font-size:10px;fill:#687386}.c{text-anchor:middle}.e{text-anchor:end}.f{fill:#dbe9f9;stroke:#8fa5c2}.u{fill:none;stroke:#1b2230;stroke-width:1.5}
.p0{fill:#77aadd}.p1{fill:#ee8866}.p2{fill:#c3cad5}</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#fff" stroke="#d5dae2"/>
`, width, d.y, pic.name) + d.String() + "</svg>\n"
}
