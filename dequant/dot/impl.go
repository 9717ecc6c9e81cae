package dot

import "github.com/tensormap/tensormap/layout"

// A quantizedKernel multiplies len(dst) rows of one type with an activation. blocks is the
// number of the type's blocks in a row, at least one. The contract:
//
//   - rows has exactly these blocks, at any alignment. Not a byte outside it is read: it may end
//     with a mapping. Groups are read in full.
//   - The products equal the products of the portable loop, bit for bit, but for the sign and payload of a NaN.
//   - Assembly has no frame and calls nothing: rows may be lost memory, and its fault unwinds.
//     The upper halves of vector registers are clear on return.
//   - A call takes simd.MaxCall elements at most, or one row.
type quantizedKernel func(dst []float32, rows []byte, x []group, blocks int)

// A manyKernel multiplies rows of one type with len(xs) activations, at least one. xs[i] is the address of the first
// code of activation i. A row has the given number of whole groups. dst has the products of the first row with all
// activations, then of the next row. acc has eight floats for the partial sums of each activation, and spare more.
// Otherwise a quantizedKernel's contract holds.
type manyKernel func(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)

// spare is the number of further floats in acc. Kernels spill the codes and scales of a group to them.
const spare = 128

// A plainKernel multiplies rows of len(x) numbers: a multiple of lanes, and segmentElems at most.
// Otherwise a quantizedKernel's contract holds.
type plainKernel func(dst []float32, rows []byte, x []float32)

// A quantizer writes the codes, scales and sums of x, which are whole blocks, to a group or several. q is the address of
// the first code of the first group. A quantizer writes no group that x does not reach. For Q8_0 it may write anything to
// scaledSums. If x cannot be quantized, it writes a scale or a scaled sum that is not finite. Otherwise all fields are what
// the portable loop writes.
type quantizer func(q *int8, x []float32)

const numTypes = int(layout.APR_Q8) + 1

// quantized are the kernels of a type: for one activation, and a faster one for several, if there is any.
type quantized struct {
	one  quantizedKernel
	many manyKernel
}

//go:generate go -C ../_asm run ./level -level NEON -out ../dot/neon_arm64.go -pkg dot ../dot/neon_arm64.s ../dot/neon_plain_arm64.s

// An impl has the kernels of one level. A type without an entry has the kernel of the lower level. If no level
// has a kernel for a type, its rows are expanded in tiles, and floats multiplies the tiles.
type impl struct {
	name      string
	quantized [numTypes]quantized
	plain     [numTypes]plainKernel
	floats    func(dst, rows, x []float32)
	blocks    quantizer // of Q8_0 and Q8_1, or nil
	blocksK   quantizer // of Q8_K, or nil
}

// levels are the implementations that this machine can run, the portable one first, the best last.
var levels = append([]*impl{&generic}, archLevels()...)

// active holds for each type the best kernel of all levels.
var active = overlay(levels)

// overlay returns one level made of levels, which come in order, the best level last. For each type or task it takes the kernel of the
// last level that has one. The result has the name of the last level.
func overlay(levels []*impl) *impl {
	all := new(impl)
	for _, l := range levels {
		all.name = l.name
		for d := range numTypes {
			if kernel := l.quantized[d].one; kernel != nil {
				all.quantized[d].one = kernel
			}
			if kernel := l.quantized[d].many; kernel != nil {
				all.quantized[d].many = kernel
			}
			if l.plain[d] != nil {
				all.plain[d] = l.plain[d]
			}
		}
		if l.floats != nil {
			all.floats = l.floats
		}
		if l.blocks != nil {
			all.blocks, all.blocksK = l.blocks, l.blocksK
		}
	}
	return all
}

// generic is the portable level. Its products are the definition of all products.
var generic = impl{
	name: "generic",
	quantized: [numTypes]quantized{
		layout.Q4_0:   {one: newSmallKernel(18, decodeQ4_0, false)},
		layout.Q4_1:   {one: newSmallKernel(20, decodeQ4_1, true)},
		layout.Q5_0:   {one: newSmallKernel(22, decodeQ5_0, false)},
		layout.Q5_1:   {one: newSmallKernel(24, decodeQ5_1, true)},
		layout.Q8_0:   {one: newSmallKernel(34, decodeQ8_0, false)},
		layout.IQ4_NL: {one: newSmallKernel(18, decodeIQ4_NL, false)},
		layout.MXFP4:  {one: newSmallKernel(17, decodeMXFP4, false)},
		layout.NVFP4:  {one: nvfp4Generic},
		layout.Q2_K:   {one: newSuperKernel(84, decodeQ2_K, true)},
		layout.Q3_K:   {one: newSuperKernel(110, decodeQ3_K, false)},
		layout.Q4_K:   {one: newSuperKernel(144, decodeQ4_K, true)},
		layout.Q5_K:   {one: newSuperKernel(176, decodeQ5_K, true)},
		layout.Q6_K:   {one: newSuperKernel(210, decodeQ6_K, false)},
		layout.IQ4_XS: {one: newSuperKernel(136, decodeIQ4_XS, false)},
		layout.TQ1_0:  {one: newSuperKernel(54, decodeTQ1_0, false)},
		layout.TQ2_0:  {one: newSuperKernel(66, decodeTQ2_0, false)},
	},
	floats: floatsGeneric,
}
