// Package elements reads stored elements that float32 would round.
package elements

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/tensormap/tensormap/layout"
)

// IsWide reports whether d has elements that float32 would round.
func IsWide(d layout.DType) bool {
	switch d {
	case layout.F64, layout.I32, layout.U32, layout.I64, layout.U64:
		return true
	}
	return false
}

// Float64s converts the elements src of a wide type d to dst. 64-bit integers are rounded once, to nearest even.
func Float64s(d layout.DType, dst []float64, src []byte) {
	for i := range dst {
		dst[i], _ = float64Of(d, src[i*d.BlockBytes():])
	}
}

// Float32s converts the elements src of a wide type d to dst. It reports whether each is a float32. A NaN is one. If it reports
// false, some elements of dst have been rounded, 64-bit integers twice.
func Float32s(d layout.DType, dst []float32, src []byte) (exact bool) {
	exact = true
	for i := range dst {
		x, isFloat64 := float64Of(d, src[i*d.BlockBytes():])
		dst[i] = float32(x)
		exact = exact && isFloat64 && (float64(dst[i]) == x || x != x)
	}
	return exact
}

// float64Of returns the element of a wide type d that b begins with, and reports whether it is a float64. If not, x is rounded.
func float64Of(d layout.DType, b []byte) (x float64, exact bool) {
	const digits = 53 // binary ones of a float64
	switch d {
	case layout.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case layout.I32:
		return float64(int32(binary.LittleEndian.Uint32(b))), true
	case layout.U32:
		return float64(binary.LittleEndian.Uint32(b)), true
	}
	magnitude, sign := binary.LittleEndian.Uint64(b), 1.0
	if d == layout.I64 && int64(magnitude) < 0 {
		magnitude, sign = -magnitude, -1
	}
	return sign * float64(magnitude), bits.Len64(magnitude)-bits.TrailingZeros64(magnitude) <= digits
}

// Texts have the text of an element, for integers and for what float32 would round.
var Texts = map[layout.DType]func(b []byte) string{
	layout.I8: textOf[int8], layout.I16: textOf[int16], layout.I32: textOf[int32], layout.I64: textOf[int64],
	layout.U8: textOf[uint8], layout.U16: textOf[uint16], layout.U32: textOf[uint32], layout.U64: textOf[uint64],
	layout.BOOL: textOf[uint8], layout.F64: textOf[float64],
}

// textOf returns the text of the little-endian T in b.
func textOf[T any](b []byte) string {
	var x T
	binary.Decode(b, binary.LittleEndian, &x) // b is as long as a T
	return fmt.Sprint(x)
}
