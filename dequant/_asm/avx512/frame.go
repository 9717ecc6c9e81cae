package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

const level = "AVX512"

// A kernel is one function while it is being written.
type kernel struct {
	*kit.Kernel
	repair *repair
}

// A body generates the constants that a kernel keeps in registers, and returns the generator of
// an iteration over one block.
type body func(k *kernel) func()

// expand generates both variants for a type of blocks.
func expand(name string, b body) {
	kit.Blocks(name, level, func(k *kit.Kernel) func() { return b(&kernel{Kernel: k}) })
}

// zmm loads a constant of 16 words.
func zmm(name string, value func(i int) uint32) reg.VecVirtual {
	z := ZMM()
	VMOVDQU32(kit.Words(name, kit.List(16, value)...), z)
	return z
}

// floats loads a constant of 16 floats.
func floats(name string, value func(i int) float32) reg.VecVirtual {
	return zmm(name, kit.Bits(value))
}

// splat fills a register with one 32-bit word.
func splat(name string, value uint32) reg.VecVirtual {
	z := ZMM()
	VPBROADCASTD(kit.Words(name, value), z)
	return z
}

// splatFloat fills a register with one float.
func splatFloat(name string, value float32) reg.VecVirtual {
	return splat(name, math.Float32bits(value))
}

// half loads the binary16 at m into all lanes.
func half(m Mem) reg.VecVirtual {
	h, z := YMM(), ZMM()
	VPBROADCASTW(m, h)
	VCVTPH2PS(h, z)
	return z
}

// float loads the binary32 at m into all lanes.
func float(m Mem) reg.VecVirtual {
	z := ZMM()
	VBROADCASTSS(m, z)
	return z
}

// halves loads the two binary16s at m, each into all lanes.
func halves(m Mem) (first, second reg.VecVirtual) {
	first, second = ZMM(), ZMM()
	pair, upper := XMM(), XMM()
	VPBROADCASTD(m, pair)
	VCVTPH2PS(pair, pair)
	VMOVSHDUP(pair, upper)
	VBROADCASTSS(pair, first)
	VBROADCASTSS(upper, second)
	return first, second
}

// bytes loads the 16 bytes at m, zero-extended.
func bytes(m Mem) reg.VecVirtual {
	z := ZMM()
	VPMOVZXBD(m, z)
	return z
}

// scratch returns aligned memory on the stack. Scales that vector operations have unpacked are stored
// there, because an operand broadcast from memory takes no shuffle. Alignment lets the stores be
// forwarded to the loads.
func scratch(size int) Mem {
	at := GP64()
	LEAQ(AllocLocal(size+64).Offset(63), at)
	ANDQ(I8(-64), at)
	return Mem{Base: at}
}

// Truth tables of VPTERNLOG over its operands: c is the first in Go's order, b the second, a the
// third, which is also the destination.
const (
	tableA, tableB, tableC = 0xf0, 0xcc, 0xaa

	aAndCOrB  = tableA&tableC | tableB         // a's bits in mask c, with all of b
	selectByC = tableA&tableC | tableB&^tableC // a's bits in mask c, else b's
)
