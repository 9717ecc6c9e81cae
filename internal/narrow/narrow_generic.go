package narrow

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

// f16Generic writes src to dst as binary16s, one by one.
func f16Generic(dst []byte, src []float32) {
	for len(dst) >= 2 && len(src) >= 1 {
		binary.LittleEndian.PutUint16(dst, block.Half(src[0]))
		dst, src = dst[2:], src[1:]
	}
}

// bf16Generic writes src to dst as bfloat16s, one by one.
func bf16Generic(dst []byte, src []float32) {
	for len(dst) >= 2 && len(src) >= 1 {
		binary.LittleEndian.PutUint16(dst, brain(src[0]))
		dst, src = dst[2:], src[1:]
	}
}

// brain rounds to the nearest bfloat16, ties to even.
func brain(f float32) uint16 {
	b := math.Float32bits(f)
	if b&^(1<<31) > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
