package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expandSignature is the type of run and stream.
const expandSignature = "func(dst []float32, src []byte)"

// A kernel is one function while it is being written. dst and src are where the loop has
// arrived, left is the number of elements or blocks still to do.
type kernel struct {
	stream         bool
	dst, src, left reg.GPVirtual
	repair         *repair
	outOfLine      []func()
}

// begin opens a function that does what the portable loop named <name>Generic does.
func begin(name, variant, signature string) *kernel {
	TEXT(name+"AVX512"+variant, NOSPLIT, signature)
	doc := fmt.Sprintf("%sAVX512%s does what %sGeneric does", name, variant, name)
	if variant != "" {
		doc += ", with non-temporal stores to a dst aligned to 64 bytes"
	}
	Doc(doc + ".")
	Pragma("noescape")
	k := &kernel{stream: variant == "Stream"}
	k.dst = Load(Param("dst").Base(), GP64()).(reg.GPVirtual)
	k.src = Load(Param("src").Base(), GP64()).(reg.GPVirtual)
	return k
}

// end closes the function. Rare code goes behind the return, out of the loop's way.
func (k *kernel) end() {
	if k.stream {
		SFENCE()
	}
	VZEROUPPER()
	RET()
	for _, f := range k.outOfLine {
		f()
	}
}

// both writes run and stream.
func both(name string, body func(k *kernel)) {
	for _, variant := range []string{"", "Stream"} {
		k := begin(name, variant, expandSignature)
		body(k)
		k.end()
	}
}

// from is the source at an offset in bytes.
func (k *kernel) from(offset int) Mem { return Mem{Base: k.src, Disp: offset} }

// store writes a vector at an offset in bytes.
func (k *kernel) store(offset int, v reg.VecVirtual) {
	to := Mem{Base: k.dst, Disp: offset}
	if k.stream {
		VMOVNTPS(v, to)
		return
	}
	VMOVUPS(v, to)
}

// forEachBlock loops over the blocks of a type.
func (k *kernel) forEachBlock(elems, size int, block func()) {
	k.left = Load(Param("dst").Len(), GP64()).(reg.GPVirtual)
	SHRQ(U8(math.Log2(float64(elems))), k.left)
	Label("block")
	block()
	ADDQ(U32(size), k.src)
	ADDQ(U32(4*elems), k.dst)
	DECQ(k.left)
	JNZ(LabelRef("block"))
}

// A constant is emitted once and shared by name.
type constant struct {
	at     Mem
	values []uint32
}

var constants = map[string]constant{}

// words is a read-only vector of 32-bit words.
func words(name string, values ...uint32) Mem {
	if c, ok := constants[name]; ok {
		if !slices.Equal(c.values, values) {
			panic("two constants of one name: " + name)
		}
		return c.at
	}
	c := constant{GLOBL(name, RODATA|NOPTR), values}
	for i, v := range values {
		DATA(4*i, U32(v))
	}
	constants[name] = c
	return c.at
}

// zmm loads a constant of 16 words.
func zmm(name string, value func(i int) uint32) reg.VecVirtual {
	var v [16]uint32
	for i := range v {
		v[i] = value(i)
	}
	z := ZMM()
	VMOVDQU32(words(name, v[:]...), z)
	return z
}

// floats loads a constant of 16 floats.
func floats(name string, value func(i int) float32) reg.VecVirtual {
	return zmm(name, func(i int) uint32 { return math.Float32bits(value(i)) })
}

// splat fills a register with one 32-bit word.
func splat(name string, value uint32) reg.VecVirtual {
	z := ZMM()
	VPBROADCASTD(words(name, value), z)
	return z
}

// splatFloat fills a register with one float.
func splatFloat(name string, value float32) reg.VecVirtual {
	return splat(name, math.Float32bits(value))
}

// half is the binary16 at an offset in all lanes.
func (k *kernel) half(offset int) reg.VecVirtual {
	h, z := YMM(), ZMM()
	VPBROADCASTW(k.from(offset), h)
	VCVTPH2PS(h, z)
	return z
}

// float is the binary32 at an offset in all lanes.
func (k *kernel) float(offset int) reg.VecVirtual {
	z := ZMM()
	VBROADCASTSS(k.from(offset), z)
	return z
}

// halves are the two binary16s at an offset, each in all lanes.
func (k *kernel) halves(offset int) (d, m reg.VecVirtual) {
	d, m = ZMM(), ZMM()
	pair, second := XMM(), XMM()
	VPBROADCASTD(k.from(offset), pair)
	VCVTPH2PS(pair, pair)
	VMOVSHDUP(pair, second)
	VBROADCASTSS(pair, d)
	VBROADCASTSS(second, m)
	return d, m
}

// bytes are 16 bytes at an offset, zero-extended.
func (k *kernel) bytes(offset int) reg.VecVirtual {
	z := ZMM()
	VPMOVZXBD(k.from(offset), z)
	return z
}

// scratch is aligned room on the stack. Scales that vector operations have unpacked are stored
// there, because an operand broadcast from memory takes no shuffle. Alignment lets the
// stores be forwarded to the loads.
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
