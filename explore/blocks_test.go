package explore

import (
	"encoding/binary"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestBlockFields: the fields of a block fill it, and hold all of its values.
func TestBlockFields(t *testing.T) {
	for d, fields := range blockFields {
		bytes, hasValues := 0, false
		for _, f := range fields {
			bytes += f.bytes
			hasValues = hasValues || f.values == d.BlockElems()
		}
		if bytes != d.BlockBytes() || !hasValues {
			t.Errorf("%v: %d of %d bytes", d, bytes, d.BlockBytes())
		}
	}
}

// TestBlockParts reads scales that are known.
func TestBlockParts(t *testing.T) {
	data := make([]byte, 6*34) // three rows of two blocks
	for i, bits := range []uint16{0x3c00, 0x3800, 0x4000, 0x3400, 0xc200, 0x3c00} {
		binary.LittleEndian.PutUint16(data[i*34:], bits)
	}
	m, err := loader.OpenBytes(modeltest.APR2Model(t, nil, modeltest.Tensor{Name: "a", DType: layout.Q8_0, Shape: []int{3, 64}, Data: data}), nil)
	m = modeltest.Opened(t, m, err)
	a := answerOf[answer.TensorAnswer](t, Handler(m.Acquire, nil), "data/tensor?name=a")
	if len(a.Parts) != 2 {
		t.Fatalf("%+v", a.Parts)
	}
	d, q := a.Parts[0], a.Parts[1]
	if d.Role != "d" || d.Count != 6 || d.Bytes != 12 || d.Min != "-3" || d.Median != "1" || d.Max != "2" || d.At != "row 2, columns 0–31" {
		t.Errorf("%+v", d)
	}
	if q.Role != "qs" || q.Count != 192 || q.Bytes != 192 || q.Max != "" {
		t.Errorf("%+v", q)
	}
}

// TestSchemeParts: parts of a weight that are stored as numbers have their range. Others have none, and packed ones say why.
func TestSchemeParts(t *testing.T) {
	for name, packed := range map[string][]string{
		"awq-gemm": {"codes", "zero_point"}, "bnb-int8": {"format"}, "ct-float": {}, "autoround-fp8": {},
	} {
		m, err := loader.Open("../testdata/quantized/"+name, nil)
		m = modeltest.Opened(t, m, err)
		h := Handler(m.Acquire, nil)
		for tensor := range m.Tensors() {
			for i, part := range tensor.Parts() {
				got := answerOf[answer.TensorAnswer](t, h, "data/tensor?name="+url.QueryEscape(tensor.Name())).Parts[i]
				if slices.Contains(packed, got.Role) {
					if got.Min != "" || got.At != "" || strings.HasSuffix(got.Stored, ", packed") == (got.Role == "format") {
						t.Errorf("%s: %+v", name, got)
					}
					continue
				}
				values := make([]float32, part.Tensor.Elements())
				if err := part.Tensor.Dequantize(values); err != nil {
					t.Fatal(err)
				}
				sorted := slices.Sorted(slices.Values(values))
				text := func(v float32) answer.Value { return answer.Value(strconv.FormatFloat(float64(v), 'g', -1, 64)) }
				place := uint64(0)
				for d, text := range strings.Split(strings.Trim(got.At, "[]"), ", ") {
					n, err := strconv.ParseUint(text, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					place = place*uint64(part.Tensor.Shape()[d]) + n
				}
				if n := len(sorted); got.Min != text(sorted[0]) || got.Median != text(sorted[n/2]) || got.Max != text(sorted[n-1]) || strings.Contains(got.Stored, "packed") ||
					math.Abs(float64(values[place])) != math.Max(math.Abs(float64(sorted[0])), math.Abs(float64(sorted[n-1]))) {
					t.Errorf("%s: %+v, where %v is", name, got, values[place])
				}
			}
		}
	}
}

// TestErrorOfTensor: once the models are compared, a tensor has its ratio of signal to error.
func TestErrorOfTensor(t *testing.T) {
	x := modeltest.Finite("a", layout.F32, 8, 8)
	y := modeltest.Tensor{Name: "a", DType: layout.F32, Shape: x.Shape, Data: append([]byte{}, x.Data...)}
	y.Data[0] ^= 0xff
	a, err := loader.OpenBytes(modeltest.SafeTensors(x), nil)
	a = modeltest.Opened(t, a, err)
	b, err := loader.OpenBytes(modeltest.SafeTensors(y), nil)
	b = modeltest.Opened(t, b, err)
	h := Handler(a.Acquire, &Options{Compared: b.Acquire})
	if got := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=a"); got.DB != nil {
		t.Errorf("%v dB before the models were compared", *got.DB)
	}
	lines := linesOf[answer.Line](t, h, "data/compare")
	pairs := lines[len(lines)-1].Pairs
	if got := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=a"); got.DB == nil || *got.DB != pairs[0].DB || got.TypeDB != nil {
		t.Errorf("%v, want %v", got.DB, pairs)
	}
}
