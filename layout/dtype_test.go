package layout_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// The tables below are typed in from the formats' documents, not from dtype.go.

// ggmlTypes is ggml.h's enum ggml_type and the block sizes of ggml-common.h.
var ggmlTypes = []struct {
	id           uint32
	name         string
	elems, bytes int64
}{
	{0, "F32", 1, 4}, {1, "F16", 1, 2}, {30, "BF16", 1, 2}, {28, "F64", 1, 8},
	{24, "I8", 1, 1}, {25, "I16", 1, 2}, {26, "I32", 1, 4}, {27, "I64", 1, 8},
	{2, "Q4_0", 32, 18}, {3, "Q4_1", 32, 20}, {6, "Q5_0", 32, 22}, {7, "Q5_1", 32, 24},
	{8, "Q8_0", 32, 34}, {9, "Q8_1", 32, 36}, {20, "IQ4_NL", 32, 18}, {39, "MXFP4", 32, 17},
	{40, "NVFP4", 64, 36}, {41, "Q1_0", 128, 18}, {42, "Q2_0", 64, 18},
	{10, "Q2_K", 256, 84}, {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},
	{14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292}, {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
	{18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50}, {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
	{23, "IQ4_XS", 256, 136}, {29, "IQ1_M", 256, 56}, {34, "TQ1_0", 256, 54}, {35, "TQ2_0", 256, 66},
}

// safetensorsBits is the SafeTensors enum Dtype, bits an element.
var safetensorsBits = map[string]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32,
	"I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

// tsmBytes is type_bytes of the TSM document (FLOAT64 as written since 2018), with
// the widths that upstream gives to BOOLEAN, COMPLEX* and fixed point.
var tsmBytes = map[string]int64{
	"VOID": 0, "I8": 1, "U8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8,
	"F16": 2, "F32": 4, "F64": 8, "CHAR8": 1, "CHAR16": 2, "CHAR32": 4,
	"UNKNOWN8": 1, "UNKNOWN16": 2, "UNKNOWN32": 4, "UNKNOWN64": 8, "UNKNOWN128": 16,
	"BOOL": 1, "C32": 4, "C64": 8, "C128": 16,
	"FIXED_Q0": 1, "FIXED_Q1": 1, "FIXED_Q2": 1, "FIXED_Q3": 1,
	"FIXED_Q4": 1, "FIXED_Q5": 1, "FIXED_Q6": 1, "FIXED_Q7": 1,
}

// sizeRule is the size in bytes of n elements with an innermost dimension of row, or
// nil where they do not fill whole blocks.
type sizeRule func(n, row *big.Int) *big.Int

// exactly is n×num/den where that is whole, else nil.
func exactly(n *big.Int, num, den int64) *big.Int {
	q, r := new(big.Int).QuoRem(new(big.Int).Mul(n, big.NewInt(num)), big.NewInt(den), new(big.Int))
	if r.Sign() != 0 {
		return nil
	}
	return q
}

// sizeRules is every type that any of the formats has, with the rule of its format.
var sizeRules = func() map[string]sizeRule {
	rules := map[string]sizeRule{
		"APR_Q4": func(n, _ *big.Int) *big.Int { // 18 bytes per 32 elements, the last block padded
			blocks := new(big.Int).Add(n, big.NewInt(31))
			return blocks.Mul(blocks.Div(blocks, big.NewInt(32)), big.NewInt(18))
		},
		"APR_Q8": func(n, _ *big.Int) *big.Int { // an f32, then a byte an element; nothing for nothing
			if n.Sign() == 0 {
				return n
			}
			return new(big.Int).Add(n, big.NewInt(4))
		},
	}
	for _, g := range ggmlTypes {
		rules[g.name] = func(n, row *big.Int) *big.Int {
			if exactly(row, 1, g.elems) == nil {
				return nil
			}
			return exactly(n, g.bytes, g.elems)
		}
	}
	for name, bits := range safetensorsBits {
		rules[name] = func(n, _ *big.Int) *big.Int { return exactly(n, bits, 8) }
	}
	for name, bytes := range tsmBytes {
		rules[name] = func(n, _ *big.Int) *big.Int { return exactly(n, bytes, 1) }
	}
	return rules
}()

func mustDType(t testing.TB, name string) layout.DType {
	t.Helper()
	d, ok := layout.ParseDType(name)
	if !ok {
		t.Fatalf("no dtype %s", name)
	}
	return d
}

// validDTypes walks all 256 values, so that a type added later is tested unasked.
func validDTypes() (all []layout.DType) {
	for v := range 256 {
		if d := layout.DType(v); d.Valid() {
			all = append(all, d)
		}
	}
	return all
}

func TestDTypeBlocks(t *testing.T) {
	check := func(format, name string, elems, bytes int64) {
		d := mustDType(t, name)
		if int64(d.BlockElems()) != elems || int64(d.BlockBytes()) != bytes {
			t.Errorf("%s: %s has blocks of %d elements, %d bytes, want %d, %d",
				format, name, d.BlockElems(), d.BlockBytes(), elems, bytes)
		}
	}
	for _, g := range ggmlTypes {
		check("ggml", g.name, g.elems, g.bytes)
	}
	for name, bits := range safetensorsBits {
		d := mustDType(t, name)
		if got, want := int64(d.BlockBytes())*8, bits*int64(d.BlockElems()); got != want {
			t.Errorf("safetensors: %s has %d bits a block of %d, want %d", name, got, d.BlockElems(), want)
		}
	}
	for name, bytes := range tsmBytes {
		check("tsm", name, 1, bytes)
	}
	check("aprender", "APR_Q4", 32, 18)
	for _, d := range validDTypes() {
		if sizeRules[d.String()] == nil {
			t.Errorf("%s is in no format's table", d)
		}
	}
	if got, want := len(validDTypes()), len(sizeRules); got != want {
		t.Errorf("%d types, but the formats have %d", got, want)
	}
}

func TestGGMLIDs(t *testing.T) {
	byID := map[uint32]string{}
	for _, g := range ggmlTypes {
		byID[g.id] = g.name
	}
	have := 0
	for id := range uint32(1 << 10) {
		d, ok := layout.FromGGML(id)
		if ok != (byID[id] != "") || ok && d.String() != byID[id] || !ok && d != layout.Invalid {
			t.Errorf("FromGGML(%d) = %s, %t, want %q", id, d, ok, byID[id])
		}
		if ok {
			have++
		}
	}
	if d, ok := layout.FromGGML(math.MaxUint32); ok || d != layout.Invalid {
		t.Errorf("FromGGML(max) = %s, %t", d, ok)
	}
	if have != len(ggmlTypes) {
		t.Errorf("%d types have a ggml id, want %d", have, len(ggmlTypes))
	}
}

func TestDTypeNames(t *testing.T) {
	seen := map[string]layout.DType{}
	for _, d := range validDTypes() {
		name := d.String()
		if other, dup := seen[name]; dup {
			t.Errorf("%d and %d are both called %s", d, other, name)
		}
		seen[name] = d
		if name == "" || name != strings.ToUpper(name) {
			t.Errorf("%d is called %q, want upper case", d, name)
		}
		if back, ok := layout.ParseDType(name); back != d || !ok {
			t.Errorf("ParseDType(%s) = %d, %t, want %d", name, back, ok, d)
		}
	}
	for _, name := range []string{"", "INVALID", "f32", "F32 ", "DType(200)", "PTR"} {
		if d, ok := layout.ParseDType(name); ok || d != layout.Invalid {
			t.Errorf("ParseDType(%q) = %s, %t", name, d, ok)
		}
	}
	if b, err := json.Marshal(map[string]layout.DType{"dtype": layout.Q8_0}); string(b) != `{"dtype":"Q8_0"}` || err != nil {
		t.Errorf("JSON of Q8_0: %s, %v", b, err)
	}
}

func TestDTypeOutOfRange(t *testing.T) {
	for v := range 256 {
		d := layout.DType(v)
		if d.Valid() {
			continue
		}
		if want := fmt.Sprintf("DType(%d)", v); v > 0 && d.String() != want {
			t.Errorf("String is %q, want %q", d, want)
		}
		if d.Kind() != layout.KindNone || d.Quantized() || d.BlockBytes() != 0 || d.BlockElems() != 1 || d.Align() != 1 {
			t.Errorf("%s has properties", d)
		}
		if n, err := d.Size([]int{4}); n != 0 || err == nil {
			t.Errorf("%s.Size = %d, %v, want an error", d, n, err)
		}
	}
}

func TestDTypeKind(t *testing.T) {
	kinds := map[layout.Kind]string{
		layout.KindFloat:   "F32 F16 BF16 F64 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F6_E2M3 F6_E3M2 F4",
		layout.KindInt:     "I8 I16 I32 I64",
		layout.KindUint:    "U8 U16 U32 U64",
		layout.KindBool:    "BOOL",
		layout.KindComplex: "C32 C64 C128",
		layout.KindNone: "VOID CHAR8 CHAR16 CHAR32 UNKNOWN8 UNKNOWN16 UNKNOWN32 UNKNOWN64 UNKNOWN128 " +
			"FIXED_Q0 FIXED_Q1 FIXED_Q2 FIXED_Q3 FIXED_Q4 FIXED_Q5 FIXED_Q6 FIXED_Q7",
	}
	want := map[string]layout.Kind{}
	for kind, names := range kinds {
		for name := range strings.FieldsSeq(names) {
			want[name] = kind
		}
	}
	for _, d := range validDTypes() {
		kind, plain := want[d.String()]
		if !plain {
			kind = layout.KindQuantized
		}
		if d.Kind() != kind || d.Quantized() != !plain {
			t.Errorf("%s is of kind %d, want %d", d, d.Kind(), kind)
		}
	}
}

// A view of a tensor is a slice of a Go type; what that type needs is what Align says.
func TestDTypeAlign(t *testing.T) {
	want := map[string]int{
		"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I16": 2, "I32": 4, "I64": 8, "U16": 2, "U32": 4, "U64": 8,
		"C32": 2, "C64": 4, "C128": 8, "CHAR16": 2, "CHAR32": 4,
		"UNKNOWN16": 2, "UNKNOWN32": 4, "UNKNOWN64": 8, "UNKNOWN128": 8,
	}
	for _, d := range validDTypes() {
		if w := max(1, want[d.String()]); d.Align() != w {
			t.Errorf("%s has alignment %d, want %d", d, d.Align(), w)
		}
	}
}

func TestElements(t *testing.T) {
	const big = math.MaxInt
	tests := []struct {
		shape []int
		n     uint64
		ok    bool
	}{
		{nil, 1, true},
		{[]int{}, 1, true},
		{[]int{0}, 0, true},
		{[]int{7}, 7, true},
		{[]int{2, 3, 4}, 24, true},
		{[]int{big}, big, true},
		{[]int{big, 1, 1}, big, true},
		{[]int{1 << 30, 1<<30 - 1, 16}, (1<<30 - 1) << 34, true},
		{[]int{big, 0}, 0, true},
		{[]int{0, big, big}, 0, true},
		{[]int{big, big, 0}, 0, true}, // empty although the product overflows on the way
		{[]int{1 << 30, 1 << 30, 16, 0}, 0, true},
	}
	for _, tt := range tests {
		if n, ok := layout.Elements(tt.shape); n != tt.n || ok != tt.ok {
			t.Errorf("Elements(%v) = %d, %t, want %d, %t", tt.shape, n, ok, tt.n, tt.ok)
		}
	}
	overflows := [][]int{
		{big, big, 16}, {16, big, big}, {1 << 30, 1 << 30, 16}, {1 << 30, 1 << 30, 1 << 4, 1},
		{1 << 30, 1 << 30, 16, 5}, // the low half is zero by now; the overflow must not be forgotten
		{5, 1 << 30, 1 << 30, 16, 1, 1},
		{-1}, {-1, 0}, {0, -1}, {math.MinInt, 2}, {-1, -1}, {3, -2, 5}, // no number of elements at all
	}
	for _, shape := range overflows {
		if _, ok := layout.Elements(shape); ok {
			t.Errorf("Elements(%v) fits, want an overflow", shape)
		}
	}
}

func TestTensorElements(t *testing.T) {
	for _, shape := range [][]int{nil, {0}, {2, 3, 4}, {math.MaxInt}} {
		x := layout.Tensor{Shape: shape}
		if want, _ := layout.Elements(shape); x.Elements() != want {
			t.Errorf("a tensor of shape %v has %d elements, want %d", shape, x.Elements(), want)
		}
	}
}

// bigSize is DType.Size by its format's rule in unbounded arithmetic; nil is an error.
func bigSize(name string, shape []int) *big.Int {
	n, row := big.NewInt(1), big.NewInt(1)
	if slices.ContainsFunc(shape, func(dim int) bool { return dim < 0 }) {
		return nil
	}
	for _, dim := range shape {
		row = big.NewInt(int64(dim))
		n = new(big.Int).Mul(n, row)
	}
	if !n.IsUint64() {
		return nil
	}
	size := sizeRules[name](n, row)
	if size == nil || !size.IsUint64() {
		return nil
	}
	return size
}

func checkSize(t testing.TB, d layout.DType, shape []int) {
	t.Helper()
	got, err := d.Size(shape)
	want := bigSize(d.String(), shape)
	switch {
	case want == nil && err == nil:
		t.Errorf("%s.Size(%v) = %d, want an error", d, shape, got)
	case want == nil && got != 0:
		t.Errorf("%s.Size(%v) = %d with error %v", d, shape, got, err)
	case want != nil && err != nil:
		t.Errorf("%s.Size(%v): %v, want %s", d, shape, err, want)
	case want != nil && got != want.Uint64():
		t.Errorf("%s.Size(%v) = %d, want %s", d, shape, got, want)
	}
}

func TestDTypeSize(t *testing.T) {
	tests := []struct {
		dtype string
		shape []int
		want  uint64
	}{
		{"F32", nil, 4},
		{"F32", []int{2, 3}, 24},
		{"C128", []int{3}, 48},
		{"VOID", []int{math.MaxInt}, 0},
		{"F32", []int{3, 715827883, 1<<31 - 1}, maxUint64 - 3},
		{"F4", []int{3, 2}, 3},
		{"F4", []int{2, 3}, 3}, // a row ends within a byte
		{"F6_E2M3", []int{2, 2}, 3},
		{"F6_E3M2", []int{4, 5}, 15},
		{"Q4_0", []int{3, 64}, 108},
		{"Q6_K", []int{2, 256}, 420},
		{"Q8_0", []int{7, 0}, 0},
		{"Q8_0", []int{0, 32}, 0},
		{"APR_Q4", nil, 18},
		{"APR_Q4", []int{0}, 0},
		{"APR_Q4", []int{32}, 18},
		{"APR_Q4", []int{33}, 36},
		{"APR_Q4", []int{5, 7}, 36}, // padded once, not in every row
		{"APR_Q8", nil, 5},
		{"APR_Q8", []int{0}, 0},
		{"APR_Q8", []int{2, 3}, 10},
		{"APR_Q8", []int{11 * 59, 98818999, 287630261}, maxUint64},
	}
	for _, tt := range tests {
		if got, err := mustDType(t, tt.dtype).Size(tt.shape); got != tt.want || err != nil {
			t.Errorf("%s.Size(%v) = %d, %v, want %d", tt.dtype, tt.shape, got, err, tt.want)
		}
	}
	errors := []struct {
		dtype string
		shape []int
		want  string
	}{
		{"Q4_0", nil, "1 elements are no multiple of Q4_0's block of 32"},
		{"Q4_0", []int{32, 33}, "33 elements are no multiple"},
		{"Q4_0", []int{2, 16}, "16 elements are no multiple"}, // 32 in all, but not in a row
		{"Q4_K", []int{0, 128}, "128 elements are no multiple"},
		{"F4", nil, "1 elements are no multiple of F4's block of 2"},
		{"F4", []int{3, 3}, "9 elements are no multiple"},
		{"F6_E2M3", []int{3, 2}, "6 elements are no multiple of F6_E2M3's block of 4"},
		{"U8", []int{1 << 30, 1 << 30, 16}, "2^64 elements"},
		{"F32", []int{1 << 30, 1 << 30, 4}, "2^64 bytes"},
		{"Q8_0", []int{1<<29 - 1, 1 << 30, 32}, "2^64 bytes"},
		{"APR_Q8", []int{4, 3, 715827883, 1<<31 - 1}, "2^64 bytes"},
	}
	for _, tt := range errors {
		_, err := mustDType(t, tt.dtype).Size(tt.shape)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s.Size(%v): error %v, want one with %q", tt.dtype, tt.shape, err, tt.want)
		}
	}
}

// Every type, every shape of up to three dimensions out of those where arithmetic breaks.
func TestDTypeSizeExhaustively(t *testing.T) {
	dims := []int{
		0, 1, 2, 3, 4, 31, 32, 64, 128, 255, 256,
		1 << 16, 1 << 30, 1<<31 - 1, math.MaxInt - 31, math.MaxInt - 4, math.MaxInt, -1, math.MinInt,
	}
	third := []int{0, 1, 2, 32, 256, 1 << 30, math.MaxInt}
	for _, d := range validDTypes() {
		checkSize(t, d, nil)
		for _, x := range dims {
			checkSize(t, d, []int{x})
			for _, y := range dims {
				checkSize(t, d, []int{x, y})
				for _, z := range third {
					checkSize(t, d, []int{x, y, z})
				}
			}
		}
	}
}

// FuzzDTypeSize reads the dimensions as little-endian words.
func FuzzDTypeSize(f *testing.F) {
	word := func(dims ...uint64) (b []byte) {
		for _, dim := range dims {
			b = binary.LittleEndian.AppendUint64(b, dim)
		}
		return b
	}
	for _, d := range validDTypes() {
		f.Add(uint8(d), word(3, 256))
	}
	f.Add(uint8(layout.F32), word(1<<62))
	f.Add(uint8(layout.APR_Q8), word(maxUint64-4))
	f.Add(uint8(layout.F6_E2M3), word(1<<32, 1<<32, 0))
	f.Fuzz(func(t *testing.T, v uint8, b []byte) {
		d := layout.DType(v)
		if !d.Valid() {
			return
		}
		var shape []int
		for ; len(b) >= 8 && len(shape) < 8; b = b[8:] {
			shape = append(shape, layout.Dim(binary.LittleEndian.Uint64(b)))
		}
		checkSize(t, d, shape)
	})
}

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		d                   layout.DType
		first, n, off, size uint64
	}{
		{layout.F32, 3, 2, 12, 8},
		{layout.U8, 0, 0, 0, 0},
		{layout.Q8_0, 5, 0, 0, 0},
		{layout.Q8_0, 37, 0, 34, 0},
		{layout.Q4_0, 0, 32, 0, 18},
		{layout.Q4_0, 31, 2, 0, 36},
		{layout.Q4_0, 64, 1, 36, 18},
		{layout.Q6_K, 256, 512, 210, 420},
		{layout.APR_Q4, 32, 1, 18, 18},
		{layout.APR_Q8, 0, 5, 4, 5},
		{layout.APR_Q8, 7, 2, 11, 2},
	} {
		if off, size := tt.d.ByteRange(tt.first, tt.n); off != tt.off || size != tt.size {
			t.Errorf("%v, %d elements from %d on: %d bytes at %d, want %d at %d", tt.d, tt.n, tt.first, size, off, tt.size, tt.off)
		}
	}
	// All elements of a tensor end where the tensor does.
	for _, name := range []string{"F64", "Q5_1", "IQ1_M", "APR_Q4", "APR_Q8", "F4", "F6_E2M3"} {
		d, _ := layout.ParseDType(name)
		for _, n := range []int{256, 512, 1 << 30} {
			want, err := d.Size([]int{n})
			if off, size := d.ByteRange(0, uint64(n)); err != nil || off != uint64(d.HeadBytes()) || off+size != want {
				t.Errorf("%v, %d elements: %d bytes at %d, but the tensor has %d (%v)", d, n, size, off, want, err)
			}
		}
	}
}

// TestSpanAtTheEnd has ranges that end with the last element that 64 bits can count.
func TestSpanAtTheEnd(t *testing.T) {
	for _, d := range []layout.DType{layout.U8, layout.Q4_0, layout.Q6_K} {
		for _, n := range []uint64{1, 2, uint64(d.BlockElems())} {
			want := (n + uint64(d.BlockElems()) - 1) / uint64(d.BlockElems()) * uint64(d.BlockBytes())
			if _, size := d.ByteRange(math.MaxUint64-n+1, n); size != want {
				t.Errorf("%v: the last %d elements: %d bytes, want %d", d, n, size, want)
			}
		}
	}
}
