package dequant

import (
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// A kernel expands whole blocks of one type; plain numbers are blocks of one element. The contract
// of run and stream:
//
//   - The number of blocks is a positive multiple of step: len(dst) and len(src) are that many
//     times the type's BlockElems and BlockBytes. Nothing else needs to be checked.
//   - src has any alignment, dst the alignment of a float32. They do not overlap.
//   - Not a byte outside dst and src is written, nor read: src may end with the mapping. Masked
//     loads that suppress faults are fine.
//   - The values equal the values of the portable loop, bit for bit. Only a NaN of a block type may be
//     any NaN (see the package comment). Multiply-add is fused only if the product is exact, so
//     that the sum rounds the same number.
//   - The upper halves of vector registers are clear on return (VZEROUPPER). No control bit
//     (MXCSR, FPCR) has changed: subnormals count.
//   - A call expands at most simd.MaxCall elements, because the runtime cannot preempt assembly.
//
// The stream variant stores past the caches. It gets a dst aligned to 64 bytes. It fences its
// stores before it returns (SFENCE), so that another goroutine may read them.
//
// The exact products are products of a binary16 and the few bits of a code, in the 24 bits of a
// float32. n·d of Q4_1 and Q5_1 takes 11 + 5 bits, dmin·m of Q2_K, Q4_K and Q5_K takes 11 + 6.
// (d·s)·q takes at most 11 + 6 + 5. Unless zero, none is below 2⁻²⁴, binary16's least subnormal,
// and none exceeds 65504·63·31. Signs of zero, infinities and NaNs are as after the two steps.
type kernel struct {
	run    func(dst []float32, src []byte)
	stream func(dst []float32, src []byte) // nil: run serves any size
	step   int                             // 0 means 1
}

// A scaledKernel expands integers as scale × (q − zero). Its caller has made sure that every q −
// zero is exact in float32, so that one float32 product is the specified value. Otherwise kernel's
// contract holds.
type scaledKernel struct {
	run  func(dst []float32, src []byte, scale float32, zero int32)
	step int
}

// A groupKernel expands codes whose scales are stored apart, as Grouped says. group is the number of elements in a group, a
// multiple of step. dst holds whole groups, at least one. scales has a scale for each group, or one scale for all groups.
// offsets has an offset for each group, or one offset for all groups. Kernels in assembly need not apply offsets to codes from
// Int8By127 on. Eight codes are as many bytes as a code has bits. Otherwise kernel's contract holds.
type groupKernel struct {
	run, stream func(dst []float32, codes []byte, scales, offsets []float32, group int)
	step        int  // a power of two from 8 on
	takesPairs  bool // the kernel also takes an even number of groups of 16, whatever step is
}

// numTypes is one more than the greatest type that a table has an entry for.
const numTypes = int(layout.APR_Q8) + 1

//go:generate go -C _asm run ./level -level NEON -step 32 -steps f16=8,f64=8,f8e4m3=8,f8e5m2=8 -pairs e2m1,e2m1Plus,nf4,fp4 -out ../neon_arm64.go -pkg dequant ../neon_arm64.s ../neon_blocks_arm64.s ../neon_groups_arm64.s ../neon_k_arm64.s ../neon_turn_arm64.s

// An impl has the kernels of one level, indexed by type or code. Entries without a run function are left to
// the levels below. Levels are generated with their assembly: <level>_<arch>.go. A kernel that is entered
// there is used, tested and benchmarked.
type impl struct {
	name   string
	expand [numTypes]kernel
	scaled [numTypes]scaledKernel

	grouped   [numCodes]groupKernel // by Code; unsigned integers with Bias by Code + biased
	transpose transposer
	permuted  [9]permutedKernel // by the bits of a code
	// scaleEach makes (v − offset) · scale of a positive multiple of eight values, in place, with a scale and an
	// offset for each.
	scaleEach func(dst, scales, offsets []float32)
}

// A permutedKernel expands unsigned integers of eight rows. groups has the number of each column's group. Rows of
// dst are stride values apart. columns is a multiple of 32: 32 codes of a row take as many words of 32 bits as a
// code has bits. words has word 0 of tileRows rows, then word 1 of each row, and so on. In the same way scales and
// offsets have the numbers of group 0 for tileRows rows, then of group 1. Otherwise kernel's contract holds.
type permutedKernel func(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)

// levels are the implementations this machine can run, the portable one first, the best last.
var levels = append([]*impl{&generic}, archLevels()...)

// active holds for each type the best kernel of all levels.
var active = overlay(levels)

// overlay returns one level made of levels, which come in order, the best level last. For each type, code or task it takes the kernel of
// the last level that has one. The result has the name of the last level.
func overlay(levels []*impl) *impl {
	all := new(impl)
	for _, l := range levels {
		all.name = l.name
		simd.Replace(all.expand[:], l.expand[:], func(k kernel) bool { return k.run != nil })
		simd.Replace(all.scaled[:], l.scaled[:], func(k scaledKernel) bool { return k.run != nil })
		simd.Replace(all.grouped[:], l.grouped[:], func(k groupKernel) bool { return k.run != nil })
		simd.Replace(all.permuted[:], l.permuted[:], func(k permutedKernel) bool { return k != nil })
		if l.transpose.words != nil {
			all.transpose = l.transpose
		}
		if l.scaleEach != nil {
			all.scaleEach = l.scaleEach
		}
	}
	return all
}

// Implementations returns the names of the levels that this machine can run, "generic" first and
// the preferred one last.
func Implementations() []string {
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.name
	}
	return names
}
