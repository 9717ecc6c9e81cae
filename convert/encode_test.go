package convert_test

import (
	"bytes"
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
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// sameFloats compares bit by bit, but for NaNs.
func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
	})
}

// weights are normally distributed, as in real models.
func weights(name string, shape ...uint64) (content, []float32) {
	n, _ := layout.Elements(shape)
	rng := rand.New(rand.NewPCG(n, 5))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return content{name, layout.F32, shape, bytes.Clone(mmapio.Bytes(values))}, values
}

var encodable = []layout.DType{layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1}

// TestReencode compares with the whole tensor quantized at once. It has more values than
// are encoded in one step.
func TestReencode(t *testing.T) {
	c, values := weights("w", 1100, 1024)
	if len(values) <= 1<<20 {
		t.Fatal("one step")
	}
	m := openBytes(t, safeTensors(2, "{}", c))
	for _, d := range encodable {
		size, _ := d.Size(c.shape)
		want := make([]byte, size)
		if err := dequant.Quantize(d, want, values); err != nil {
			t.Fatal(err)
		}
		out, r := toAPR2(t, m, &convert.Options{DType: d})
		x := tensor(t, out, "w")
		if b, err := x.Bytes(); err != nil || x.DType() != d || !bytes.Equal(b, want) || len(r.Kept) != 0 {
			t.Errorf("%v: other bytes, kept %v, %v", d, r.Kept, err)
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
	scale, err := dequant.ToI8(want, values)
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
		if err := dequant.Quantize(from, c.data, values); err != nil {
			t.Fatal(err)
		}
		m := openBytes(t, apr2File(t, nil, c))
		source, err := tensor(t, m, "w").Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range encodable {
			want := c.data
			if to != from {
				size, _ := to.Size(c.shape)
				want = make([]byte, size)
				if err := dequant.Quantize(to, want, source); err != nil {
					t.Fatal(err)
				}
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
		i := slices.IndexFunc(r.Kept, func(k convert.Kept) bool { return k.Name == tt.name })
		if (i >= 0) != (tt.reason != "") || i >= 0 && !strings.Contains(r.Kept[i].Reason, tt.reason) {
			t.Errorf("%s: kept %v, want reason %q", tt.name, r.Kept, tt.reason)
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

func TestCanEncode(t *testing.T) {
	for d := range layout.DType(255) {
		want := d == layout.I8 || slices.Contains(encodable, d)
		if convert.CanEncode(d) != want {
			t.Errorf("%v: %v", d, !want)
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
		{"large", 1e6, layout.Q4_0, 32, 0}, // the block's scale is infinite
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
			r, err := convert.ToAPR2(t.Context(), m, filepath.Join(t.TempDir(), "out.apr"), &convert.Options{DType: test.dtype})
			if err != nil {
				t.Fatal(err)
			}
			var lost uint64
			for _, l := range r.Lost {
				lost += l.NotFinite
			}
			if lost != test.lost || len(r.Kept) != test.kept {
				t.Errorf("lost %d, kept %v", lost, r.Kept)
			}
		})
	}
}

// floatFile is a SafeTensors file of two rows of values.
func floatFile(name string, values []float32) []byte {
	header := fmt.Sprintf(`{%q:{"dtype":"F32","shape":[2,%d],"data_offsets":[0,%d]}}`, name, len(values)/2, 4*len(values))
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
