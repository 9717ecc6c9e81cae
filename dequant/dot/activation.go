package dot

import (
	"fmt"
	"math"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/block"
	"github.com/tensormap/tensormap/layout"
)

// groupElems is the number of elements in a group.
const groupElems = 256

// A group holds up to 256 elements of a quantized activation: eight blocks of 32. Kernels in
// assembly know the places of its fields.
//
// The codes lie as kernels load them: a half of block k, then the same half of block k+4, which fill two lanes of a
// vector. See codeIndex.
type group struct {
	codes      [groupElems]int8
	scales     [8]float32 // scale of a block; the same for all blocks in Q8_K
	codeSums   [8]int32   // sum of a block's codes
	scaledSums [8]float32 // Q8_1: a block's scale times the sum of its codes, rounded to binary16; else 0
	sums16     [16]int16  // sums of the codes of half a block
}

// codeIndex returns the index in group.codes of the first of sixteen codes, which are a half of block k. Only the lowest bit
// of half counts: 0 for the first half, 1 for the second. The halves of a block begin 32 codes apart. For k from 0 to 3, a half
// of block k+4 begins 16 codes behind the same half of block k.
func codeIndex(k, half int) int { return (k&3)*64 + (half&1)*32 + ((k>>2)&1)*16 }

// An Activation is a vector, prepared for rows of some types. It may be used by several goroutines
// at once, but not while Set runs. The zero Activation has no elements and suits no type.
type Activation struct {
	dtype  layout.DType // Q8_0, Q8_1, Q8_K or F32
	elems  int          // elements of the vector
	groups []group      // of types other than F32
	floats []float32    // of type F32: the elements, and zeros up to a multiple of lanes
}

// Type returns the type of the activation that rows of type d are multiplied with: Q8_0, Q8_1,
// Q8_K or F32. It returns 0 if package dequant does not expand d. It also returns 0 if a tensor
// of type d begins with a head, which all its blocks need: a row alone has none (see [layout.DType.HeadBytes]).
func Type(d layout.DType) layout.DType {
	if int(d) < len(activations) && activations[d] != 0 {
		return activations[d]
	}
	if !dequant.Supported(d) || d.HeadBytes() > 0 {
		return 0
	}
	return layout.F32
}

var activations = [...]layout.DType{
	layout.Q4_0: layout.Q8_0, layout.Q5_0: layout.Q8_0, layout.Q8_0: layout.Q8_0,
	layout.IQ4_NL: layout.Q8_0, layout.MXFP4: layout.Q8_0, layout.NVFP4: layout.Q8_0,
	layout.Q4_1: layout.Q8_1, layout.Q5_1: layout.Q8_1,
	layout.Q2_K: layout.Q8_K, layout.Q3_K: layout.Q8_K, layout.Q4_K: layout.Q8_K, layout.Q5_K: layout.Q8_K,
	layout.Q6_K: layout.Q8_K, layout.IQ4_XS: layout.Q8_K, layout.TQ1_0: layout.Q8_K, layout.TQ2_0: layout.Q8_K,
}

// Type returns the activation's type: Q8_0, Q8_1, Q8_K or F32. It returns 0 before Set, and after Set has failed.
func (a *Activation) Type() layout.DType { return a.dtype }

// Set makes a the activation of x for rows of type d. It reuses a's memory if that is large enough, and retains nothing
// of x. The error wraps errors.ErrUnsupported if rows of type d cannot be multiplied. It wraps dequant.ErrLength if
// len(x) is no multiple of d.BlockElems(). If x has to be quantized, it wraps dequant.ErrNotFinite for a NaN or an
// infinity: as an element, or as the scale or sum of a block. After an error a has no elements.
func (a *Activation) Set(d layout.DType, x []float32) error {
	kind := Type(d)
	a.dtype, a.elems = 0, 0
	switch {
	case kind == 0:
		return unsupported(d)
	case len(x)%d.BlockElems() != 0:
		return fmt.Errorf("dot: a vector of %d elements is not in blocks of %d, as %v is: %w", len(x), d.BlockElems(), d, dequant.ErrLength)
	case kind == layout.F32:
		a.floats = resize(a.floats, (len(x)+lanes-1)/lanes*lanes)
		clear(a.floats[copy(a.floats, x):])
	default:
		a.groups = resize(a.groups, (len(x)+groupElems-1)/groupElems)
		for i := range a.groups {
			if at, err := a.groups[i].set(kind, x[i*groupElems:min(len(x), (i+1)*groupElems)]); err != nil {
				return fmt.Errorf("dot: %v of elements %d to %d: %w", kind, i*groupElems+at, min(len(x), i*groupElems+at+kind.BlockElems())-1, err)
			}
		}
	}
	a.dtype, a.elems = kind, len(x)
	return nil
}

// resize returns a slice of n elements, in the memory of s if that is large enough. Their contents are unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// set quantizes x to the codes, scales and sums of g for an activation of type kind. len(x) is a multiple of 32, at most 256,
// and for Q8_K always 256. If the scale or sum of a block is not finite, the error wraps dequant.ErrNotFinite. Then at is the
// index in x of the block's first element.
func (g *group) set(kind layout.DType, x []float32) (at int, err error) {
	if len(x) < groupElems {
		*g = group{}
	}
	if g.setByKernel(kind, x) {
		return 0, nil
	}
	if kind == layout.Q8_K {
		return 0, g.setK((*[groupElems]float32)(x))
	}
	for k := 0; k*32 < len(x); k++ {
		if err := g.set32(k, (*[32]float32)(x[k*32:]), kind == layout.Q8_1); err != nil {
			return k * 32, err
		}
	}
	return 0, nil
}

// setByKernel quantizes x to g as set does, by a kernel. It reports whether g is set. It returns false if there is no kernel,
// and also if a scale or a sum is not finite. set then runs the portable code, which finds the error.
func (g *group) setByKernel(kind layout.DType, x []float32) bool {
	kernel := active.blocks
	if kind == layout.Q8_K {
		kernel = active.blocksK
	}
	if kernel == nil {
		return false
	}
	kernel(&g.codes[0], x)   // writes all fields of g, which lie at fixed distances from the first code
	if kind != layout.Q8_1 { // the kernel may have written anything to scaledSums: see quantizer
		g.scaledSums = [8]float32{}
	}
	for k := range g.scales {
		if !(abs(g.scales[k]) <= math.MaxFloat32 && abs(g.scaledSums[k]) <= math.MaxFloat32) { // also true for a NaN
			return false
		}
	}
	return true
}

// set32 quantizes the 32 elements x to block k of g, as ggml's quantize_row_q8_0_ref does. If hasSums is set, it also sets
// the block's scaled sum, as quantize_row_q8_1_ref does. Otherwise the scaled sum becomes 0. The error wraps
// dequant.ErrNotFinite if the scale or the scaled sum is not finite in binary16.
func (g *group) set32(k int, x *[32]float32, hasSums bool) error {
	d := abs(extreme(x[:])) / 127
	inverse := 1 / d
	g.scales[k] = block.Float(block.Half(d))
	if g.scales[k] > math.MaxFloat32 || g.scales[k] != g.scales[k] {
		return fmt.Errorf("scale %v is not finite in binary16: %w", d, dequant.ErrNotFinite)
	}
	if inverse > math.MaxFloat32 { // all elements are zero or nearly zero: all codes become 0
		inverse = 0
	}
	for h := range 2 {
		q, sum := (*[16]int8)(g.codes[codeIndex(k, h):]), int16(0)
		for i, v := range (*[16]float32)(x[h*16:]) {
			q[i] = roundHalfAway(float32(v * inverse))
			sum += int16(q[i])
		}
		g.sums16[2*k+h] = sum
	}
	g.codeSums[k] = int32(g.sums16[2*k]) + int32(g.sums16[2*k+1])
	g.scaledSums[k] = 0
	if hasSums {
		g.scaledSums[k] = block.Float(block.Half(float32(g.codeSums[k]) * d))
		if abs(g.scaledSums[k]) > math.MaxFloat32 {
			return fmt.Errorf("the sum is not finite in binary16: %w", dequant.ErrNotFinite)
		}
	}
	return nil
}

// setK quantizes the 256 elements x to g, as ggml's quantize_row_q8_K_ref does. If an element is a NaN or an infinity, the
// error wraps dequant.ErrNotFinite.
func (g *group) setK(x *[groupElems]float32) error {
	greatest := extreme(x[:])
	if !(abs(greatest) <= math.MaxFloat32) {
		return fmt.Errorf("the greatest is %v: %w", greatest, dequant.ErrNotFinite)
	}
	*g = group{}
	inverse := -127 / greatest          // of the scale: greatest becomes code -127, whatever its sign
	if abs(inverse) > math.MaxFloat32 { // all elements are zero or nearly zero: all codes and scales of g stay 0
		return nil
	}
	for k := range g.scales {
		g.scales[k] = 1 / inverse
		for h := range 2 {
			q, sum := (*[16]int8)(g.codes[codeIndex(k, h):]), int16(0)
			for i, v := range (*[16]float32)(x[k*32+h*16:]) {
				q[i] = int8(min(127, roundToEven(float32(v*inverse))))
				sum += int16(q[i])
			}
			g.sums16[2*k+h] = sum
		}
		g.codeSums[k] = int32(g.sums16[2*k]) + int32(g.sums16[2*k+1])
	}
	return nil
}

// extreme returns the element of x whose magnitude is greatest, with its sign. If several elements have that magnitude, it
// returns the first. A NaN counts as greater than any number. extreme returns 0 if all elements are 0, or if x is empty.
func extreme(x []float32) (greatest float32) {
	var magnitude uint32 // of greatest; compared as an integer, so that NaNs compare too
	for _, v := range x {
		if m := math.Float32bits(v) &^ (1 << 31); m > magnitude {
			greatest, magnitude = v, m
		}
	}
	return greatest
}

// abs returns the magnitude of f. It clears the sign of NaNs too.
func abs(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }

// roundHalfAway returns the integer nearest to f, as C's roundf does. If f lies halfway between two integers, it returns the
// integer farther from 0. f is in int8's range. f ± ½ is taken in float64, where the sum never rounds up to the next integer.
func roundHalfAway(f float32) int8 { return int8(float64(f) + math.Copysign(0.5, float64(f))) }

// roundToEven returns the integer nearest to f, as ggml's nearest_int does. If f lies halfway between two integers, it returns
// the even integer. f is below 2²² in magnitude. The sum of f and 1.5·2²³ is rounded to an integer. The bits of its mantissa
// are the integer nearest to f, plus 2²².
func roundToEven(f float32) int32 {
	return int32(math.Float32bits(float32(f+0x1.8p23))&0x7fffff) - 0x400000
}
