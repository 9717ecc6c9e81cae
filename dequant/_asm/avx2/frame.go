package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// A kernel loops over blocks, or over 32 plain numbers at a time. Several blocks an iteration
// were not faster.
type kernel struct{ *kit.Kernel }

// A body generates the constants that a kernel keeps in registers, and returns the generator of
// an iteration.
type body func(k *kernel) func()

const level = "AVX2"

// expand generates both variants for a type of blocks.
func expand(name string, b body) {
	kit.Blocks(name, level, func(k *kit.Kernel) func() { return b(&kernel{k}) })
}

// expandNumbers generates both variants for plain numbers of size bytes each.
func expandNumbers(name string, size int, b body) {
	kit.Both(name, level, func(k *kit.Kernel) { numbers(k, size, b) })
}

// numbers loops over plain numbers of size bytes each.
func numbers(k *kit.Kernel, size int, b body) {
	k.Elems, k.In, k.Out = 32, 32*size, 32*4
	k.Loop(b(&kernel{k}))
}

// bytes32 returns the address of a constant vector.
func bytes32(name string, f func(i int) byte) Mem { return kit.Data(name, kit.List(32, f)) }

func bytesOf(name string, v byte) Mem {
	return bytes32(name, func(int) byte { return v })
}

func dwords(name string, f func(i int) uint32) Mem { return kit.Words(name, kit.List(8, f)...) }

func dwordsOf(name string, v uint32) Mem {
	return dwords(name, func(int) uint32 { return v })
}

func quadwordsOf(name string, v uint64) Mem {
	return bytes32(name, func(i int) byte { return byte(v >> (i % 8 * 8)) })
}

func floatsOf(name string, v float32) Mem {
	return dwordsOf(name, math.Float32bits(v))
}

// keep loads a constant into a register.
func keep(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}
