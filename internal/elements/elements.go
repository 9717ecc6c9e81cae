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
		if d == layout.F64 {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
			continue
		}
		sign, magnitude := integer(d, src, i)
		dst[i] = sign * float64(magnitude)
	}
}

// Float32s converts the elements src of a wide type d to dst. It reports whether each is a float32, so that none was rounded. A NaN
// is one.
func Float32s(d layout.DType, dst []float32, src []byte) (exact bool) {
	const digits = 24 // binary ones of a float32
	exact = true
	for i := range dst {
		if d == layout.F64 {
			x := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
			dst[i] = float32(x)
			exact = exact && (float64(dst[i]) == x || x != x)
			continue
		}
		sign, magnitude := integer(d, src, i)
		dst[i] = float32(sign) * float32(magnitude)
		exact = exact && bits.Len64(magnitude)-bits.TrailingZeros64(magnitude) <= digits
	}
	return exact
}

// integer returns element i of src, whose type d is I32, U32, I64 or U64: its sign, 1 or -1, and its magnitude.
func integer(d layout.DType, src []byte, i int) (sign float64, magnitude uint64) {
	var x int64
	switch d {
	case layout.I32:
		x = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
	case layout.U32:
		x = int64(binary.LittleEndian.Uint32(src[4*i:]))
	case layout.I64:
		x = int64(binary.LittleEndian.Uint64(src[8*i:]))
	default:
		return 1, binary.LittleEndian.Uint64(src[8*i:])
	}
	if x < 0 {
		return -1, uint64(-x)
	}
	return 1, uint64(x)
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
