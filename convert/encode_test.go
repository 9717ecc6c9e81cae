package convert_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/quantize"
)

// weights are normally distributed, as in real models.
func weights(name string, shape ...int) (content, []float32) {
	n, _ := layout.Elements(shape)
	rng := rand.New(rand.NewPCG(n, 5))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return content{name, layout.F32, shape, bytes.Clone(mmapio.Bytes(values))}, values
}

var encodable = []layout.DType{layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1}

// quantized returns values as type d.
func quantized(t *testing.T, d layout.DType, values []float32) []byte {
	t.Helper()
	b := make([]byte, len(values)/d.BlockElems()*d.BlockBytes())
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	if err := cmp.Or(err, quantize.Encode(c, b, values, nil, 1)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReencode compares with the whole tensor quantized at once. It has more values than
// are encoded in one step.
func TestReencode(t *testing.T) {
	c, values := weights("w", 1100, 1024)
	if len(values) <= 1<<20 {
		t.Fatal("one step")
	}
	m := openBytes(t, safeTensors(2, "{}", c))
	dtypes := encodable
	if testmode.Brief() {
		dtypes = []layout.DType{layout.BF16, layout.Q4_0}
	}
	for _, d := range dtypes {
		want := quantized(t, d, values)
		out, r := toAPR2(t, m, &convert.Options{DType: d})
		x := tensor(t, out, "w")
		if b, err := x.Bytes(); err != nil || x.DType() != d || !bytes.Equal(b, want) || len(kept(r)) != 0 {
			t.Errorf("%v: other bytes, kept %v, %v", d, kept(r), err)
		}
		if v, _ := metadata(t, out).Get("quantization", "method"); v != d.String() {
			t.Errorf("%v: method %v", d, v)
		}
		// What SafeTensors cannot hold becomes F32, and is said to be of that method no more.
		floats, _ := toSafeTensors(t, out, nil)
		back, _ := toAPR2(t, floats, nil)
		again, _ := toAPR2(t, out, nil)
		if v, found := metadata(t, back).Get("quantization"); found != (tensor(t, floats, "w").DType() == d) {
			t.Errorf("%v: from SafeTensors: quantization %v", d, v)
		}
		if v, _ := metadata(t, again).Get("quantization", "method"); v != d.String() {
			t.Errorf("%v: copied: method %v", d, v)
		}
	}
}

func TestReencodeToI8(t *testing.T) {
	c, values := weights("w", 1100, 1024)
	m := openBytes(t, safeTensors(2, "{}", c))
	want := make([]byte, len(values))
	var most quantize.Int8Scale
	most.Add(values)
	scale, err := most.Scale()
	if err != nil {
		t.Fatal(err)
	}
	codec, err := dequant.NewCodec(layout.I8, layout.Quant{Scale: scale}, true)
	if err == nil {
		err = quantize.Encode(codec, want, values, nil, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, _ := toAPR2(t, m, &convert.Options{DType: layout.I8})
	x := tensor(t, out, "w")
	q, scaled, err := x.Scale()
	if err != nil || !scaled || q != (layout.Quant{Scale: scale}) {
		t.Errorf("%+v, %v, want %v, %v", q, scaled, scale, err)
	}
	if b, err := x.Bytes(); err != nil || x.DType() != layout.I8 || !bytes.Equal(b, want) {
		t.Errorf("%v: other bytes, %v", x.DType(), err)
	}
}

// TestReencodeEveryDType: values that can be expanded can be encoded anew.
func TestReencodeEveryDType(t *testing.T) {
	_, values := weights("", 4, 64)
	for _, from := range encodable {
		c := counting("w", from, 4, 64)
		c.data = quantized(t, from, values)
		m := openBytes(t, apr2File(t, nil, c))
		source, err := tensor(t, m, "w").Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range encodable {
			want := c.data
			if to != from {
				want = quantized(t, to, source)
			}
			out, _ := toAPR2(t, m, &convert.Options{DType: to})
			if b, err := tensor(t, out, "w").Bytes(); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%v to %v: other bytes, %v", from, to, err)
			}
		}
	}
}

func TestKept(t *testing.T) {
	w, _ := weights("w", 4, 64)
	norm, _ := weights("norm", 64)
	ragged, _ := weights("ragged", 3, 33)
	scalar, _ := weights("scalar")
	already := counting("already", layout.Q8_0, 64)
	ids, mask := counting("ids", layout.I64, 64), counting("mask", layout.BOOL, 64)
	scaled := counting("scaled", layout.I8, 2, 32)
	m := openBytes(t, apr2File(t, parse(t, `{"quantization":{"scales":{"scaled":0.5}}}`), w, norm, ragged, scalar, already, ids, mask, scaled))
	out, r := toAPR2(t, m, &convert.Options{DType: layout.Q8_0, Keep: func(name string) bool { return strings.HasPrefix(name, "norm") }})
	for _, tt := range []struct {
		name   string
		dtype  layout.DType
		reason string // part of it; empty for what is re-encoded or needs nothing
	}{
		{"w", layout.Q8_0, ""},
		{"norm", layout.F32, "request"},
		{"ragged", layout.F32, "33"},
		{"scalar", layout.F32, "block of 32"},
		{"already", layout.Q8_0, ""},
		{"ids", layout.I64, "I64"},
		{"mask", layout.BOOL, "BOOL"},
		{"scaled", layout.Q8_0, ""},
	} {
		if x := tensor(t, out, tt.name); x.DType() != tt.dtype {
			t.Errorf("%s is %v, want %v", tt.name, x.DType(), tt.dtype)
		}
		i := slices.IndexFunc(kept(r), func(k convert.Tensor) bool { return k.Name == tt.name })
		if (i >= 0) != (tt.reason != "") || i >= 0 && !strings.Contains(kept(r)[i].NotReencoded, tt.reason) {
			t.Errorf("%s: kept %v, want reason %q", tt.name, kept(r), tt.reason)
		}
		if before := tensor(t, m, tt.name); before.DType() == tt.dtype {
			a, _ := before.Bytes()
			if b, err := tensor(t, out, tt.name).Bytes(); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: other bytes, %v", tt.name, err)
			}
		}
	}
	if v, found := metadata(t, out).Get("quantization", "scales"); found {
		t.Errorf("scales %v of a tensor that has none any more", v)
	}
}

func TestReencodeReadsWithoutMapping(t *testing.T) {
	c, _ := weights("w", 1100, 1024)
	path := write(t, safeTensors(1, "{}", c))
	mapped, _ := toAPR2(t, open(t, path, nil), &convert.Options{DType: layout.Q4_0})
	read, _ := toAPR2(t, open(t, path, &loader.Options{NoMap: true}), &convert.Options{DType: layout.Q4_0})
	sameTensors(t, read, mapped)
}

// searched are the types whose encoders search for scales.
var searched = []layout.DType{
	layout.Q2_K, layout.Q3_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

// TestReencodeEmpty re-encodes tensors without elements: also F64, whose bytes are decoded as they come.
func TestReencodeEmpty(t *testing.T) {
	for _, d := range []layout.DType{layout.F32, layout.F64} {
		m := openBytes(t, safeTensors(2, "{}", content{"w", d, []int{0, 32}, nil}))
		path := filepath.Join(t.TempDir(), "empty.safetensors")
		if _, err := convert.Write(t.Context(), m, path, &convert.Options{DType: layout.F16, All: true}); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestCanEncode(t *testing.T) {
	for d := range layout.DType(255) {
		want := d == layout.I8 || slices.Contains(encodable, d) || slices.Contains(searched, d)
		if convert.CanEncode(d) != want {
			t.Errorf("%v: %v", d, !want)
		}
	}
}

// TestPrecise: norms, biases and what has one dimension are quantized by request only.
func TestPrecise(t *testing.T) {
	reasons := map[string]string{
		"w.weight": "", "blk.0.attn_norm.weight": "norm", "h.LayerNorm.weight": "norm", "norm/scale": "norm", "norm1.linear.weight": "",
		"experts.down_proj_bias": "bias", "relative_attention_bias.weight": "bias", "q.bias": "bias", "debiased.proj": "", "": "",
	}
	var list []content
	for name := range reasons {
		c, _ := weights(name, 4, 32)
		list = append(list, c)
	}
	for name, shape := range map[string][]int{"row": {32}, "token": {1, 1, 32}, "column": {64, 1}, "tall": {2, 1, 32}} {
		c, _ := weights(name, shape...)
		list = append(list, c)
		reasons[name] = "one dimension"
	}
	reasons["column"], reasons["tall"] = "elements are no multiple", "" // rows of one element
	m := openBytes(t, apr2File(t, nil, list...))
	for _, d := range []layout.DType{layout.Q8_0, layout.Q4_0, layout.I8, layout.F16} {
		for _, all := range []bool{false, true} {
			out, r := toAPR2(t, m, &convert.Options{DType: d, All: all})
			for name, reason := range reasons {
				if d == layout.I8 && name == "column" {
					reason = "one dimension"
				}
				if name == "column" && d == layout.F16 || d == layout.F16 || all && (name != "column" || d == layout.I8) {
					reason = ""
				}
				want := d
				if reason != "" {
					want = layout.F32
				}
				i := slices.IndexFunc(kept(r), func(k convert.Tensor) bool { return k.Name == name })
				if x := tensor(t, out, name); x.DType() != want || (i >= 0) != (reason != "") || i >= 0 && !strings.Contains(kept(r)[i].NotReencoded, reason) {
					t.Errorf("%v, all %t: %q is %v, kept %v, want reason %q", d, all, name, x.DType(), kept(r), reason)
				}
			}
		}
	}
}

// What float16 scales cannot hold is counted, and what int8 cannot scale is kept.
func TestLostValues(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, test := range []struct {
		name  string
		odd   float32
		dtype layout.DType
		lost  uint64 // of 64 values, of which one is odd
		kept  int
	}{
		{"large", 1e6, layout.F16, 1, 0},
		{"large", 1e6, layout.BF16, 0, 0},
		{"large", 1e6, layout.Q8_0, 0, 0},
		{"NaN", nan, layout.F16, 0, 0},
		{"NaN", nan, layout.Q8_0, 1, 0}, // it becomes a number
		{"NaN", nan, layout.I8, 0, 1},
		{"Inf", inf, layout.I8, 0, 1},
		{"plain", 2, layout.Q5_1, 0, 0},
	} {
		t.Run(test.name+"/"+test.dtype.String(), func(t *testing.T) {
			values := make([]float32, 64)
			for i := range values {
				values[i] = 0.5
			}
			values[40] = test.odd
			m, err := loader.OpenBytes(floatFile("w", values), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			r, err := convert.Write(t.Context(), m, filepath.Join(t.TempDir(), "out.apr"), &convert.Options{DType: test.dtype})
			if err != nil {
				t.Fatal(err)
			}
			var n uint64
			for _, l := range lost(r) {
				n += l.Lost.NotFinite
			}
			if n != test.lost || len(kept(r)) != test.kept {
				t.Errorf("lost %d, kept %v", n, kept(r))
			}
		})
	}
}

// TestZeroedValues are counted with the largest of them, in pieces and compressed too, and whether
// anything is left.
func TestZeroedValues(t *testing.T) {
	c, values := weights("w", 1100, 1024) // more than are encoded at a time
	for i := range values {
		values[i] = 0.5
	}
	values[7], values[8], values[1<<20+5] = 3e-9, 0, -2.5e-8
	tiny, all := weights("tiny", 2, 32)
	for i := range all {
		all[i] = 1e-9
	}
	c.data, tiny.data = bytes.Clone(mmapio.Bytes(values)), bytes.Clone(mmapio.Bytes(all))
	m := openBytes(t, safeTensors(0, "{}", c, tiny))
	for _, d := range []layout.DType{layout.F16, layout.Q8_0, layout.Q4_0, layout.BF16, layout.F32, layout.I8} {
		for _, how := range []convert.Compression{convert.NoCompression, convert.Fast} {
			_, r := toAPR2(t, m, &convert.Options{DType: d, Compress: how})
			want := map[string]convert.Tensor{}
			switch d {
			case layout.F16, layout.Q8_0, layout.Q4_0:
				want["w"] = convert.Tensor{Name: "w", Shape: []int{1100, 1024}, Lost: quantize.Loss{Zeroed: 2, Largest: float64(float32(2.5e-8))}}
				want["tiny"] = convert.Tensor{Name: "tiny", Shape: []int{64}, Lost: quantize.Loss{Zeroed: 64, Largest: float64(float32(1e-9))}}
			case layout.I8:
				want["w"] = convert.Tensor{Name: "w", Shape: []int{1100, 1024}, Lost: quantize.Loss{Zeroed: 2, Largest: float64(float32(2.5e-8))}}
			}
			if len(lost(r)) != len(want) {
				t.Errorf("%v: lost %+v, want %+v", d, lost(r), want)
			}
			for _, l := range lost(r) {
				w, blocks := want[l.Name], uint64(0)
				elements, _ := layout.Elements(w.Shape)
				if l.Name == "tiny" && d.Quantized() {
					blocks = 2
				}
				if l.Elements() != elements || l.Lost.Zeroed != w.Lost.Zeroed || l.Lost.Largest != w.Lost.Largest || l.Lost.NotFinite != 0 || l.Lost.ZeroBlocks != blocks || l.Lost.AllZeroed() != (l.Name == "tiny") {
					t.Errorf("%v: lost %+v, want %+v", d, l, w)
				}
			}
		}
	}
}

// TestNarrowed: what F64 has and float32 does not is counted, whatever becomes of the float32.
func TestNarrowed(t *testing.T) {
	c := content{"w", layout.F64, []int{2, 32}, nil}
	for i := range 64 {
		x := 1.0
		switch i {
		case 3:
			x = 1e-300
		case 40:
			x = -1e300
		}
		c.data = binary.LittleEndian.AppendUint64(c.data, math.Float64bits(x))
	}
	m := openBytes(t, safeTensors(0, "{}", c))
	for _, d := range []layout.DType{layout.F32, layout.F16, layout.BF16} {
		_, r := toAPR2(t, m, &convert.Options{DType: d})
		if len(lost(r)) != 1 || lost(r)[0].Lost.NotFinite != 1 || lost(r)[0].Lost.Zeroed != 1 || lost(r)[0].Lost.Largest != 1e-300 || lost(r)[0].Lost.AllZeroed() {
			t.Errorf("%v: %+v", d, lost(r))
		}
	}
	if _, r := toAPR2(t, m, nil); len(lost(r)) != 0 {
		t.Errorf("%+v", lost(r))
	}
	// What remains is what the new type has, and not float32.
	for _, value := range []float64{1e-20, 1e-60} {
		tiny := content{"w", layout.F64, []int{2, 32}, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, math.Float64bits(value)), 64)}
		m := openBytes(t, safeTensors(0, "{}", tiny))
		for _, d := range encodable {
			_, r := toAPR2(t, m, &convert.Options{DType: d})
			want := value == 1e-60 || d != layout.F32 && d != layout.BF16
			if all := len(lost(r)) == 1 && lost(r)[0].Lost.AllZeroed(); all != want {
				t.Errorf("%g as %v: %+v", value, d, lost(r))
			}
		}
	}
}

// floatFile is a SafeTensors file of two rows of values.
func floatFile(name string, values []float32) []byte {
	header := fmt.Sprintf(`{%q:{"dtype":"F32","shape":[2,%d],"data_offsets":[0,%d]}}`, name, len(values)/2, 4*len(values))
	return modeltest.WithHeader(header, mmapio.Bytes(values)...)
}
