package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// Levels of instructions. The kernels of all have the same shape, and vectors of 32 bytes.
const (
	avx2    = "AVX2"
	avxVNNI = "AVXVNNI" // and VPDPBUSD, as AVX-VNNI encodes it
	avx512  = "AVX512"  // and VPDPBUSD, 32 registers and masks, of AVX-512 F, VL, BW, DQ and VNNI
)

// level is the level being generated.
var level = avx2

// Places in a group of the activation.
const (
	groupBytes = 384
	scales     = 256
	sums       = 288
	rounded    = 320
	halves     = 352
)

// A kernel is the function being generated. Its loop over rows contains one over groups of eight
// blocks of 32 elements.
type kernel struct {
	dst, rows, src, x, blocks GPVirtual
	group, left               GPVirtual // of the activation, and groups left in a row
	offset                    GPVirtual // of group from the first, with several activations
	acc                       VecVirtual
	tail                      GPVirtual // the number of a single block in its group, or nil
	four                      bool      // multiplies the first half of a group, in the lower lanes
	size                      int       // of a block, if eight are a group
	many                      bool      // multiplies a group with several activations: see manyRows
	spill                     GPVirtual // address of codes and scales in memory if many is set and registers are too few
	spilled                   int       // number of vectors at spill

	// Integers of the block before, and their scales, where the integers are added a block later.
	late, lateUsed                                    bool
	lateTotal, lateMins, lateScales, lateMinsRegister VecVirtual
}

// begin opens the function of a type.
func begin(name string) *kernel {
	TEXT(name+level, attr.NOSPLIT, "func(dst []float32, rows []byte, x *int8, blocks int)")
	Doc(fmt.Sprintf("%s multiplies rows with an activation, whose first code is *x. blocks is the number of blocks in a row.", name+level))
	Pragma("noescape")
	k := &kernel{group: GP64(), left: GP64()}
	k.dst = Load(Param("dst").Base(), GP64()).(GPVirtual)
	k.rows = Load(Param("dst").Len(), GP64()).(GPVirtual)
	k.src = Load(Param("rows").Base(), GP64()).(GPVirtual)
	k.x = Load(Param("x"), GP64()).(GPVirtual)
	k.blocks = Load(Param("blocks"), GP64()).(GPVirtual)
	return k
}

func (k *kernel) from(at int) Mem { return Mem{Base: k.src, Disp: at} }
func (k *kernel) act(at int) Mem  { return Mem{Base: k.group, Disp: at} }

// eachRow generates the loop over rows, and stores each one's total.
func (k *kernel) eachRow(row func()) {
	Label("row")
	k.acc = YMM()
	VXORPS(k.acc, k.acc, k.acc)
	MOVQ(k.x, k.group)
	row()
	k.finishRow()
}

// finishRow stores the total of the partial sums, and goes on to the next row.
func (k *kernel) finishRow() {
	k.total()
	DECQ(k.rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// total adds the partial sums in halves, and stores the result.
func (k *kernel) total() {
	x := XMM()
	VEXTRACTF128(Imm(1), k.acc, x)
	VADDPS(x, k.acc.AsX(), k.acc.AsX())
	VMOVHLPS(k.acc.AsX(), k.acc.AsX(), x)
	VADDPS(x, k.acc.AsX(), k.acc.AsX())
	VMOVSHDUP(k.acc.AsX(), x)
	VADDSS(x, k.acc.AsX(), k.acc.AsX())
	VMOVSS(k.acc.AsX(), Mem{Base: k.dst})
	ADDQ(Imm(4), k.dst)
}

// add adds the products of scales d and integers to the partial sums.
func (k *kernel) add(d, sum VecVirtual) {
	VCVTDQ2PS(sum, sum)
	VMULPS(d, sum, sum)
	VADDPS(sum, k.acc, k.acc)
}

// subtract subtracts them.
func (k *kernel) subtract(d, sum VecVirtual) {
	VCVTDQ2PS(sum, sum)
	VMULPS(d, sum, sum)
	VSUBPS(sum, k.acc, k.acc)
}

// bytes32 returns the address of a constant vector.
func bytes32(name string, f func(i int) byte) Mem { return kit.Data(name, kit.List(32, f)) }

func bytesOf(name string, v byte) Mem { return bytes32(name, func(int) byte { return v }) }

func wordsOf(name string, v uint16) Mem {
	return bytes32(name, func(i int) byte { return byte(v >> (i % 2 * 8)) })
}

func dwords(name string, f func(i int) uint32) Mem { return kit.Words(name, kit.List(8, f)...) }

func dwordsOf(name string, v uint32) Mem { return dwords(name, func(int) uint32 { return v }) }

func floatsOf(name string, v float32) Mem { return dwordsOf(name, math.Float32bits(v)) }

// keep loads a constant into a register.
func keep(m Mem) VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}

// shifted returns v shifted down by n bits, words apart; v itself if n is 0.
func shifted(v VecVirtual, n int) VecVirtual {
	if n == 0 {
		return v
	}
	y := YMM()
	VPSRLW(Imm(uint64(n)), v, y)
	return y
}

// field returns the bits of v, shifted down by n, that mask has.
func field(v VecVirtual, n int, mask Op) VecVirtual {
	y := YMM()
	VPAND(mask, shifted(v, n), y)
	return y
}

// register returns v, loaded if it is in memory.
func register(v Op) VecVirtual {
	if m, ok := v.(Mem); ok {
		return keep(m)
	}
	return v.(VecVirtual)
}

// products multiplies unsigned codes with the codes of the activation at m, and adds neighbours.
func products(codes Op, m Mem) VecVirtual {
	y := YMM()
	VPMADDUBSW(m, register(codes), y)
	return y
}

// signedProducts does what products does for signed codes: it moves their signs over.
func signedProducts(codes Op, m Mem) VecVirtual {
	y, magnitude := YMM(), YMM()
	VMOVDQU(m, y)
	VPSIGNB(codes, y, y)
	VPABSB(codes, magnitude)
	VPMADDUBSW(y, magnitude, magnitude)
	return magnitude
}

// pairs multiplies words and adds neighbours.
func pairs(words VecVirtual, factors Op) VecVirtual {
	VPMADDWD(factors, words, words)
	return words
}

type adder func(ops ...Op)

// halve2 adds the doublewords of a lane, or their words, in halves. Doublewords of the result are
// a, b, a, b.
func halve2(add adder, a, b VecVirtual) VecVirtual {
	low := YMM()
	VPUNPCKLDQ(b, a, low)
	VPUNPCKHDQ(b, a, a)
	add(low, a, a)
	return a
}

// halve4 goes on with two results of halve2. The result's lanes are a, b, c, d.
func halve4(add adder, ab, cd VecVirtual) VecVirtual {
	low := YMM()
	VPUNPCKLQDQ(cd, ab, low)
	VPUNPCKHQDQ(cd, ab, ab)
	add(low, ab, ab)
	return ab
}

func words(ops ...Op)       { VPADDW(ops[0], ops[1], ops[2]) }
func doublewords(ops ...Op) { VPADDD(ops[0], ops[1], ops[2]) }
