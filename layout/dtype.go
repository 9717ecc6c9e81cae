package layout

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// DType is the type of a tensor's elements: a plain number, or a block format
// that packs several elements and their scale. The zero value is Invalid.
//
// Names are as in ggml's and SafeTensors' enums, upper case, so that a
// reader of either finds the type under the name that it knows.
type DType uint8

// The element types of all formats this project reads.
const (
	Invalid DType = iota

	// Numbers, stored little-endian.
	F32
	F16
	BF16
	F64
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	BOOL // one byte, 0 or 1
	C32  // complex of two binary16
	C64  // complex of two binary32
	C128 // complex of two binary64

	// Small floats (SafeTensors; OCP FP8 and MX). F4 and F6 pack across the whole
	// tensor: two elements to a byte, four elements to three bytes.
	F8_E4M3
	F8_E5M2
	F8_E8M0
	F8_E4M3FNUZ
	F8_E5M2FNUZ
	F6_E2M3
	F6_E3M2
	F4

	// Types of TSM modules that carry bytes but no defined value.
	VOID
	CHAR8
	CHAR16
	CHAR32
	UNKNOWN8
	UNKNOWN16
	UNKNOWN32
	UNKNOWN64
	UNKNOWN128
	FIXED_Q0 // 1-byte fixed point with 0 to 7 fraction bits
	FIXED_Q1
	FIXED_Q2
	FIXED_Q3
	FIXED_Q4
	FIXED_Q5
	FIXED_Q6
	FIXED_Q7

	// Block formats of ggml, along the innermost dimension.
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ2_XXS
	IQ2_XS
	IQ3_XXS
	IQ1_S
	IQ4_NL
	IQ3_S
	IQ2_S
	IQ4_XS
	IQ1_M
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4
	Q1_0
	Q2_0

	// Quantized types of the APR dialects that aprender ships; they run over the
	// whole tensor, not along its rows.
	APR_Q4
	APR_Q8

	numDTypes
)

// Kind says how the bits of an element are to be read.
type Kind uint8

// The kinds of element types.
const (
	KindNone      Kind = iota // bytes without a defined value
	KindFloat                 // IEEE 754 or one of its small relatives
	KindInt                   // two's complement
	KindUint                  // unsigned
	KindBool                  // one byte, 0 or 1
	KindComplex               // real and imaginary part
	KindQuantized             // blocks of small integers with scales
)

// packing says how a shape turns into bytes.
type packing uint8

const (
	packRows  packing = iota // whole blocks along the innermost dimension
	packWhole                // whole blocks across the tensor (F4, F6)
	packPad                  // the tensor's last block is padded (APR_Q4)
	packHead                 // a 4-byte scale, then one byte an element (APR_Q8)
)

// headBytes is the size of the scale of packHead.
const headBytes = 4

type dtypeInfo struct {
	name    string
	elems   uint16 // elements in a block
	bytes   uint16 // bytes of a block
	align   uint8  // alignment of the Go type a view has
	kind    Kind
	packing packing
}

var dtypes = [numDTypes]dtypeInfo{
	Invalid: {"INVALID", 1, 0, 1, KindNone, packRows},

	F32:  {"F32", 1, 4, 4, KindFloat, packRows},
	F16:  {"F16", 1, 2, 2, KindFloat, packRows},
	BF16: {"BF16", 1, 2, 2, KindFloat, packRows},
	F64:  {"F64", 1, 8, 8, KindFloat, packRows},
	I8:   {"I8", 1, 1, 1, KindInt, packRows},
	I16:  {"I16", 1, 2, 2, KindInt, packRows},
	I32:  {"I32", 1, 4, 4, KindInt, packRows},
	I64:  {"I64", 1, 8, 8, KindInt, packRows},
	U8:   {"U8", 1, 1, 1, KindUint, packRows},
	U16:  {"U16", 1, 2, 2, KindUint, packRows},
	U32:  {"U32", 1, 4, 4, KindUint, packRows},
	U64:  {"U64", 1, 8, 8, KindUint, packRows},
	BOOL: {"BOOL", 1, 1, 1, KindBool, packRows},
	C32:  {"C32", 1, 4, 2, KindComplex, packRows},
	C64:  {"C64", 1, 8, 4, KindComplex, packRows},
	C128: {"C128", 1, 16, 8, KindComplex, packRows},

	F8_E4M3:     {"F8_E4M3", 1, 1, 1, KindFloat, packRows},
	F8_E5M2:     {"F8_E5M2", 1, 1, 1, KindFloat, packRows},
	F8_E8M0:     {"F8_E8M0", 1, 1, 1, KindFloat, packRows},
	F8_E4M3FNUZ: {"F8_E4M3FNUZ", 1, 1, 1, KindFloat, packRows},
	F8_E5M2FNUZ: {"F8_E5M2FNUZ", 1, 1, 1, KindFloat, packRows},
	F6_E2M3:     {"F6_E2M3", 4, 3, 1, KindFloat, packWhole},
	F6_E3M2:     {"F6_E3M2", 4, 3, 1, KindFloat, packWhole},
	F4:          {"F4", 2, 1, 1, KindFloat, packWhole},

	VOID:       {"VOID", 1, 0, 1, KindNone, packRows},
	CHAR8:      {"CHAR8", 1, 1, 1, KindNone, packRows},
	CHAR16:     {"CHAR16", 1, 2, 2, KindNone, packRows},
	CHAR32:     {"CHAR32", 1, 4, 4, KindNone, packRows},
	UNKNOWN8:   {"UNKNOWN8", 1, 1, 1, KindNone, packRows},
	UNKNOWN16:  {"UNKNOWN16", 1, 2, 2, KindNone, packRows},
	UNKNOWN32:  {"UNKNOWN32", 1, 4, 4, KindNone, packRows},
	UNKNOWN64:  {"UNKNOWN64", 1, 8, 8, KindNone, packRows},
	UNKNOWN128: {"UNKNOWN128", 1, 16, 8, KindNone, packRows},
	FIXED_Q0:   {"FIXED_Q0", 1, 1, 1, KindNone, packRows},
	FIXED_Q1:   {"FIXED_Q1", 1, 1, 1, KindNone, packRows},
	FIXED_Q2:   {"FIXED_Q2", 1, 1, 1, KindNone, packRows},
	FIXED_Q3:   {"FIXED_Q3", 1, 1, 1, KindNone, packRows},
	FIXED_Q4:   {"FIXED_Q4", 1, 1, 1, KindNone, packRows},
	FIXED_Q5:   {"FIXED_Q5", 1, 1, 1, KindNone, packRows},
	FIXED_Q6:   {"FIXED_Q6", 1, 1, 1, KindNone, packRows},
	FIXED_Q7:   {"FIXED_Q7", 1, 1, 1, KindNone, packRows},

	Q4_0:    {"Q4_0", 32, 18, 1, KindQuantized, packRows},
	Q4_1:    {"Q4_1", 32, 20, 1, KindQuantized, packRows},
	Q5_0:    {"Q5_0", 32, 22, 1, KindQuantized, packRows},
	Q5_1:    {"Q5_1", 32, 24, 1, KindQuantized, packRows},
	Q8_0:    {"Q8_0", 32, 34, 1, KindQuantized, packRows},
	Q8_1:    {"Q8_1", 32, 36, 1, KindQuantized, packRows},
	Q2_K:    {"Q2_K", 256, 84, 1, KindQuantized, packRows},
	Q3_K:    {"Q3_K", 256, 110, 1, KindQuantized, packRows},
	Q4_K:    {"Q4_K", 256, 144, 1, KindQuantized, packRows},
	Q5_K:    {"Q5_K", 256, 176, 1, KindQuantized, packRows},
	Q6_K:    {"Q6_K", 256, 210, 1, KindQuantized, packRows},
	Q8_K:    {"Q8_K", 256, 292, 1, KindQuantized, packRows},
	IQ2_XXS: {"IQ2_XXS", 256, 66, 1, KindQuantized, packRows},
	IQ2_XS:  {"IQ2_XS", 256, 74, 1, KindQuantized, packRows},
	IQ3_XXS: {"IQ3_XXS", 256, 98, 1, KindQuantized, packRows},
	IQ1_S:   {"IQ1_S", 256, 50, 1, KindQuantized, packRows},
	IQ4_NL:  {"IQ4_NL", 32, 18, 1, KindQuantized, packRows},
	IQ3_S:   {"IQ3_S", 256, 110, 1, KindQuantized, packRows},
	IQ2_S:   {"IQ2_S", 256, 82, 1, KindQuantized, packRows},
	IQ4_XS:  {"IQ4_XS", 256, 136, 1, KindQuantized, packRows},
	IQ1_M:   {"IQ1_M", 256, 56, 1, KindQuantized, packRows},
	TQ1_0:   {"TQ1_0", 256, 54, 1, KindQuantized, packRows},
	TQ2_0:   {"TQ2_0", 256, 66, 1, KindQuantized, packRows},
	MXFP4:   {"MXFP4", 32, 17, 1, KindQuantized, packRows},
	NVFP4:   {"NVFP4", 64, 36, 1, KindQuantized, packRows},
	Q1_0:    {"Q1_0", 128, 18, 1, KindQuantized, packRows},
	Q2_0:    {"Q2_0", 64, 18, 1, KindQuantized, packRows},

	APR_Q4: {"APR_Q4", 32, 18, 1, KindQuantized, packPad},
	APR_Q8: {"APR_Q8", 1, 1, 1, KindQuantized, packHead},
}

// info returns the type's row of the table. A value that is no DType reads as Invalid.
func (d DType) info() *dtypeInfo {
	if d >= numDTypes {
		d = Invalid
	}
	return &dtypes[d]
}

// String returns the type's name as inspect and the formats' documents write it, such as "Q8_0".
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// MarshalText returns what String does, so that a DType in JSON is its name.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDType finds a type by its name, exactly as String writes it.
func ParseDType(name string) (DType, bool) {
	i := slices.IndexFunc(dtypes[Invalid+1:], func(in dtypeInfo) bool { return in.name == name })
	return DType(i + 1), i >= 0
}

// Valid reports whether d is one of the types named here.
func (d DType) Valid() bool { return d > Invalid && d < numDTypes }

// Kind reports how an element's bits are read.
func (d DType) Kind() Kind { return d.info().kind }

// Quantized reports whether elements are stored in blocks with scales of their own.
func (d DType) Quantized() bool { return d.info().kind == KindQuantized }

// BlockElems returns the number of elements in one block: 1 for plain numbers.
func (d DType) BlockElems() int { return int(d.info().elems) }

// BlockBytes returns the size in bytes of one block: for plain numbers, of one element.
func (d DType) BlockBytes() int { return int(d.info().bytes) }

// HeadBytes returns the number of bytes before the first element of a tensor: 4 for APR_Q8,
// whose elements share one scale, else 0. An empty tensor has no head.
func (d DType) HeadBytes() int {
	if d.info().packing == packHead {
		return headBytes
	}
	return 0
}

// ByteRange returns the offset and the size of the blocks that hold elements [first, first+n). The
// offset counts from the first byte of a tensor of type d. The size excludes the tensor's head.
// No elements take no bytes.
func (d DType) ByteRange(first, n uint64) (off, size uint64) {
	in := d.info()
	elems, bytes := uint64(in.elems), uint64(in.bytes)
	lo := first / elems
	hi := lo
	if n > 0 {
		hi = (first+n-1)/elems + 1 // rounded up without overflow
	}
	return uint64(d.HeadBytes()) + lo*bytes, (hi - lo) * bytes
}

// Align returns the alignment in bytes that a typed view of the elements needs. Blocks
// are read byte by byte and need none.
func (d DType) Align() int { return int(d.info().align) }

// Dim returns n as a dimension. It is -1 if n does not fit an int. Elements and Size refuse that,
// and so does [Builder.Add].
func Dim(n uint64) int {
	if n > math.MaxInt {
		return -1
	}
	return int(n)
}

// Elements returns the product of shape. ok is false if it does not fit 64 bits, or if a
// dimension is negative. An empty shape is a scalar of one element.
func Elements(shape []int) (n uint64, ok bool) {
	n, ok = 1, true
	empty := false
	for _, dim := range shape {
		if dim < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 {
			// A later zero still makes the tensor empty.
			ok = false
		}
		empty = empty || dim == 0
		n = lo
	}
	if empty {
		return 0, true
	}
	return n, ok
}

// Size returns the number of bytes that a tensor of this type and shape takes when it is
// not compressed. The error says which rule the shape breaks: the size does not fit
// 64 bits, or the elements do not fill whole blocks.
func (d DType) Size(shape []int) (uint64, error) {
	in := d.info()
	n, ok := Elements(shape)
	switch i := slices.IndexFunc(shape, func(dim int) bool { return dim < 0 }); {
	case !d.Valid():
		return 0, fmt.Errorf("no dtype")
	case i >= 0:
		return 0, fmt.Errorf("dimension %d of shape %v is negative or beyond %d", i, shape, math.MaxInt)
	case !ok:
		return 0, fmt.Errorf("shape %v has 2^64 elements or more", shape)
	}
	blocks := n
	if elems := uint64(in.elems); elems != 1 { // most types have 1, and a division is slow
		blocks = n/elems + min(n%elems, 1)
		row := n // the elements that have to fill whole blocks
		if in.packing == packRows && len(shape) > 0 {
			row = uint64(shape[len(shape)-1])
		}
		if in.packing != packPad && row%elems != 0 {
			return 0, fmt.Errorf("%d elements are no multiple of %s's block of %d", row, in.name, elems)
		}
	}
	hi, size := bits.Mul64(blocks, uint64(in.bytes))
	if in.packing == packHead && n > 0 {
		var carry uint64
		size, carry = bits.Add64(size, headBytes, 0)
		hi += carry
	}
	if hi != 0 {
		return 0, fmt.Errorf("shape %v of %s has 2^64 bytes or more", shape, in.name)
	}
	return size, nil
}

// ggmlTypes maps ggml's type ids (ggml.h, enum ggml_type), as GGUF stores them, to
// DTypes. Ids that ggml removed (4, 5, 31-33, 36-38) stay Invalid.
var ggmlTypes = [...]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 9: Q8_1,
	10: Q2_K, 11: Q3_K, 12: Q4_K, 13: Q5_K, 14: Q6_K, 15: Q8_K,
	16: IQ2_XXS, 17: IQ2_XS, 18: IQ3_XXS, 19: IQ1_S, 20: IQ4_NL, 21: IQ3_S, 22: IQ2_S, 23: IQ4_XS,
	24: I8, 25: I16, 26: I32, 27: I64, 28: F64, 29: IQ1_M, 30: BF16,
	34: TQ1_0, 35: TQ2_0, 39: MXFP4, 40: NVFP4, 41: Q1_0, 42: Q2_0,
}

// GGML returns ggml's number for the type. ok is false if ggml has none.
func (d DType) GGML() (id uint32, ok bool) {
	if i := slices.Index(ggmlTypes[:], d); i >= 0 && d != Invalid {
		return uint32(i), true
	}
	return 0, false
}

// FromGGML returns the type that ggml numbers id. ok is false for ids that ggml never
// had or has removed.
func FromGGML(id uint32) (d DType, ok bool) {
	if id >= uint32(len(ggmlTypes)) {
		return Invalid, false
	}
	d = ggmlTypes[id]
	return d, d != Invalid
}
