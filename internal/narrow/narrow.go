// Package narrow rounds float32s to the floats of 16 bits: to nearest, ties to even. Numbers beyond the narrower type become
// infinities. A NaN stays one: sign and upper bits of the mantissa stay, and the quiet bit is set.
//
// Portable loops are the definition, and every level gives the same bytes. The best level is chosen once, when the
// package is initialized. The build tag purego leaves all assembly out.
package narrow

import "github.com/tensormap/tensormap/internal/simd"

// F16 writes src to dst as little-endian binary16s. It stops at the end of the shorter one.
func F16(dst []byte, src []float32) { active.f16.write(dst, src, f16Generic) }

// BF16 writes src to dst as little-endian bfloat16s. It stops at the end of the shorter one.
func BF16(dst []byte, src []float32) { active.bf16.write(dst, src, bf16Generic) }

// A kernel rounds a number of floats that is a positive multiple of step. The contract of run:
//
//   - dst takes two bytes for each float of src. It has any alignment, src the alignment of a float32, and they do not overlap.
//   - Not a byte outside dst and src is written, nor read: src may end with a mapping.
//   - The bytes equal the bytes of the portable loop, also for NaNs.
//   - The upper halves of vector registers are clear on return (VZEROUPPER). No control bit
//     (MXCSR, FPCR) has changed: subnormals count.
//   - Assembly has no frame and calls nothing: src may be lost memory, and its fault unwinds.
//   - A call takes at most simd.MaxCall floats.
type kernel struct {
	run  func(dst []byte, src []float32)
	step int
}

// write rounds src by the kernel, and the floats after the last whole step by the portable loop.
func (k kernel) write(dst []byte, src []float32, portable func(dst []byte, src []float32)) {
	src = src[:min(len(src), len(dst)/2)]
	if k.run != nil {
		for n := simd.WholeSteps(len(src), k.step); n > 0; {
			c := min(n, simd.MaxCall)
			k.run(dst[:2*c], src[:c])
			dst, src, n = dst[2*c:], src[c:], n-c
		}
	}
	portable(dst, src)
}

// A level has the kernels for some instructions. The portable level has none.
type level struct {
	name      string
	f16, bf16 kernel
}

// levels are the implementations that this machine can run, the portable one first, the best last.
var levels = append([]level{{name: "generic"}}, archLevels()...)

var active = levels[len(levels)-1]
