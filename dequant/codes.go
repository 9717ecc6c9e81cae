package dequant

import (
	"math"

	"github.com/tensormap/tensormap/layout"
)

// numCodes is one more than the last code.
const numCodes = int(layout.CodeFP4) + 1

// biased is the distance from the code of an unsigned integer to its kernel for Grouped.Bias.
const biased = 8

// Table returns the values that the sixteen nibbles have as codes of type c, before scaling. ok is false for codes that are
// integers or take a byte.
func Table(c layout.Code) (values [16]float32, ok bool) {
	if c < layout.CodeE2M1 || int(c) >= numCodes { // all codes from E2M1 on are nibbles
		return values, false
	}
	return [16]float32(codeValues[c][:]), true
}

// highFirst reports whether a byte of codes of type c holds its first element in the upper nibble.
func highFirst(c layout.Code) bool { return c == layout.CodeNF4 || c == layout.CodeFP4 }

// codeValues are the values of all codes before their scales.
var codeValues = [numCodes]*[256]float32{
	1: &byteFloats, 2: &byteFloats, 3: &byteFloats, 4: &byteFloats,
	5: &byteFloats, 6: &byteFloats, 7: &byteFloats, 8: &byteFloats,
	layout.CodeInt8: &int8Floats, layout.CodeInt8By127: &int8Floats, layout.CodeE4M3: &e4m3Floats, layout.CodeE5M2: &e5m2Floats,
	layout.CodeE2M1: nibbles(e2m1Floats), layout.CodeE2M1Plus: nibbles(e2m1PlusFloats), layout.CodeNF4: nibbles(nf4Floats), layout.CodeFP4: nibbles(bnbFP4Floats),
}

// nibbles returns a table of 256 entries: the entry of byte n is values[n&15], so that the upper nibble does not count.
func nibbles(values [16]float32) *[256]float32 {
	t := tableOf(func(b int) float32 { return values[b&15] })
	return &t
}

// e2m1Floats are the values of OCP MX v1.0's E2M1: a sign, two bits of exponent, one of mantissa.
var e2m1Floats = withMinusZero(e2m1PlusFloats)

// withMinusZero returns values with −0 as the value of code 8. Go's constants have no −0.
func withMinusZero(values [16]float32) [16]float32 {
	values[8] = float32(math.Copysign(0, -1))
	return values
}

// e2m1PlusFloats are the values of E2M1 with +0 for code 8, as ModelOpt has it.
var e2m1PlusFloats = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// nf4Floats is the table of normal floats that bitsandbytes has in its get_4bit_type.
var nf4Floats = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
	-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
	0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

// bnbFP4Floats is the other table of get_4bit_type, which divides its numbers by the largest. Code 8 is
// −0 in the library's own table.
var bnbFP4Floats = withMinusZero([16]float32{
	0, 0.0625 / 12, 8.0 / 12, 1, 4.0 / 12, 6.0 / 12, 2.0 / 12, 3.0 / 12,
	0, -0.0625 / 12, -8.0 / 12, -1, -4.0 / 12, -6.0 / 12, -2.0 / 12, -3.0 / 12,
})
