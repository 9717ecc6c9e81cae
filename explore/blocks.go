package explore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/scheme"
	"github.com/x448/float16"
)

// field is a field of the blocks of a dtype.
type field struct {
	name, stored string
	bytes        int
	values       int  // of a block
	isScale      bool // one F16
}

// scaleField returns a field that is one F16.
func scaleField(name, of string) field { return field{name, "F16, " + of, 2, 1, true} }

// blockFields are the fields of blocks, in their order, as ggml declares them.
var blockFields = map[layout.DType][]field{
	layout.Q4_0: {scaleField("d", "scale"), {"qs", "4 bits", 16, 32, false}},
	layout.Q4_1: {scaleField("d", "scale"), scaleField("m", "smallest value"), {"qs", "4 bits", 16, 32, false}},
	layout.Q5_0: {scaleField("d", "scale"), {"qh", "the fifth bits", 4, 32, false}, {"qs", "4 bits", 16, 32, false}},
	layout.Q5_1: {scaleField("d", "scale"), scaleField("m", "smallest value"), {"qh", "the fifth bits", 4, 32, false}, {"qs", "4 bits", 16, 32, false}},
	layout.Q8_0: {scaleField("d", "scale"), {"qs", "8 bits", 32, 32, false}},
	layout.Q2_K: {{"scales", "4 bits × 16, mins 4 bits × 16", 16, 32, false}, {"qs", "2 bits", 64, 256, false}, scaleField("d", "scale of scales"),
		scaleField("dmin", "scale of minima")},
	layout.Q3_K: {{"hmask", "the third bits", 32, 256, false}, {"qs", "2 bits", 64, 256, false}, {"scales", "6 bits × 16", 12, 16, false}, scaleField("d", "scale of scales")},
	layout.Q4_K: {scaleField("d", "scale of scales"), scaleField("dmin", "scale of minima"), {"scales", "6 bits × 8, mins 6 bits × 8", 12, 16, false},
		{"qs", "4 bits", 128, 256, false}},
	layout.Q5_K: {scaleField("d", "scale of scales"), scaleField("dmin", "scale of minima"), {"scales", "6 bits × 8, mins 6 bits × 8", 12, 16, false},
		{"qh", "the fifth bits", 32, 256, false}, {"qs", "4 bits", 128, 256, false}},
	layout.Q6_K: {{"ql", "4 bits", 128, 256, false}, {"qh", "the upper 2 bits", 64, 256, false}, {"scales", "8 bits × 16", 16, 16, false}, scaleField("d", "scale of scales")},
}

// maxScales bounds the blocks of a tensor whose scales are compared.
const maxScales = 4 << 20

// blockParts describes the fields of the blocks of a tensor: with the smallest, median and largest of F16 scales, and the place
// of the largest. It returns none for other tensors. It fails if the blocks cannot be read, or ctx ends.
func (m matrix) blockParts(ctx context.Context) ([]answer.TensorPart, error) {
	fields := blockFields[m.DType()]
	if m.Encoding() != layout.Raw || fields == nil || m.Elements() == 0 {
		return []answer.TensorPart{}, nil
	}
	blocks := m.RawBytes() / uint64(m.DType().BlockBytes())
	scales := make([][]float64, len(fields))
	if blocks <= maxScales {
		if err := m.readScales(ctx, fields, scales); err != nil {
			return nil, err
		}
	}
	parts := []answer.TensorPart{}
	for i, f := range fields {
		p := answer.TensorPart{Role: f.name, Stored: f.stored, Count: blocks * uint64(f.values), Bytes: blocks * uint64(f.bytes)}
		if len(scales[i]) > 0 {
			first := setRange(&p, scales[i]) * uint64(m.DType().BlockElems())
			p.At = fmt.Sprintf("row %d, columns %d–%d", first/m.columns, first%m.columns, first%m.columns+uint64(m.DType().BlockElems())-1)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// setRange sets the smallest, median and largest of one value or more. It sorts them, and returns the place that the value of the largest
// magnitude had.
func setRange(p *answer.TensorPart, values []float64) (place uint64) {
	largest := slices.MaxFunc(values, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	place = uint64(slices.IndexFunc(values, func(v float64) bool { return v == largest || v != v }))
	slices.Sort(values)
	text := func(v float64) answer.Value { return answer.Value(strconv.FormatFloat(v, 'g', -1, 64)) }
	p.Min, p.Median, p.Max = text(values[0]), text(values[len(values)/2]), text(values[len(values)-1])
	return place
}

// schemeParts describes the tensors that a quantized weight is made of: with the smallest, median and largest value, if it is stored
// as values that can be read. Of codes and zero points that are not it says that they are packed. It fails if ctx ends.
func (m matrix) schemeParts(ctx context.Context) ([]answer.TensorPart, error) {
	parts := []answer.TensorPart{}
	for _, of := range m.Parts() {
		stored := of.Tensor.DType().String()
		if shape := of.Tensor.Shape(); len(shape) > 0 {
			stored += " " + report.ShapeText(shape)
		}
		p := answer.TensorPart{Role: of.Role.String(), Name: of.Tensor.Name(), Stored: stored, Count: of.Tensor.Elements(),
			Bytes: of.Tensor.StoredBytes()}
		isOfValues := m.isOfValues(of)
		if !isOfValues && (of.Role == scheme.Codes || of.Role == scheme.ZeroPoint) {
			p.Stored += ", packed"
		}
		if n := of.Tensor.Elements(); n > 0 && n <= maxScales && isOfValues {
			numbers, values := matrixOf(of.Tensor, m.isPolite), make([]float64, 0, n)
			err := numbers.walk(ctx, numbers.all(), func(_, _ uint64, run []float64) { values = append(values, run...) })
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case err == nil: // else figures of the weight say what is wrong
				p.At = report.IndexText(survey.Coordinates(setRange(&p, values), of.Tensor.Shape()))
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// isOfValues reports whether a part of a weight has numbers, one an element: floats, codes of a byte, or zero points that are not packed.
// Packed codes are none.
func (m matrix) isOfValues(part loader.Part) bool {
	n := part.Tensor.Elements()
	switch part.Role {
	case scheme.Codes:
		return n == m.Elements()
	case scheme.ZeroPoint:
		return slices.ContainsFunc(m.Parts(), func(p loader.Part) bool { return p.Role == scheme.Scale && p.Tensor.Elements() == n })
	}
	return part.Tensor.DType().Kind() == layout.KindFloat
}

// readScales appends to scales, for each field that is one, the value that each block has.
func (m matrix) readScales(ctx context.Context, fields []field, scales [][]float64) error {
	block := m.DType().BlockBytes()
	buf := make([]byte, min(uint64(chunkValues/block*block), m.RawBytes()))
	for off := uint64(0); off < m.RawBytes(); off += uint64(len(buf)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		buf = buf[:min(uint64(len(buf)), m.RawBytes()-off)]
		if _, err := m.ReadAt(buf, int64(off)); err != nil {
			return err
		}
		for b := range slices.Chunk(buf, block) {
			for i, f := range fields {
				if f.isScale {
					scales[i] = append(scales[i], float64(float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()))
				}
				b = b[f.bytes:]
			}
		}
	}
	return nil
}
