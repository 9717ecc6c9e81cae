package main

import (
	"encoding/binary"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A kernel is the function being generated: a loop over steps of a few blocks.
type kernel struct {
	floats   string   // the parameter that holds float32s
	dst, src Register // advance by a step
	inStep   int      // bytes read in a step
	outStep  int      // bytes written in a step
	block    int      // number of the block within the step
	inBlock  int      // bytes of a block
	outBlock int
	stream   bool     // store past the caches
	rare     []func() // code placed after the loop
}

// A body generates the constants that a kernel keeps in registers, and returns what generates
// the code of one block.
type body func(k *kernel) func()

// A shape says how a kernel goes about its work.
type shape struct {
	elems, size int // of a block
	unroll      int // blocks in a step
}

// numbers is the shape for elements of so many bytes: every iteration takes 32.
func numbers(size int) shape { return shape{elems: 32, size: 32 * size, unroll: 1} }

// expand generates name, which does what the portable loop does, and name+"Stream".
func expand(name, generic string, s shape, b body) {
	for _, stream := range []bool{false, true} {
		k := &kernel{floats: "dst", inBlock: s.size, outBlock: 4 * s.elems, stream: stream}
		what := " is " + generic + "."
		if stream {
			what = " is " + generic + ", storing past the caches."
		}
		k.function(name+map[bool]string{true: "Stream"}[stream], what, "func(dst []float32, src []byte)", s, b)
	}
}

// function generates one function. The length of the float32s says how often it loops.
func (k *kernel) function(name, what, signature string, s shape, b body) {
	TEXT(name, attr.NOSPLIT, signature)
	Doc(name + what)
	Pragma("noescape")
	k.dst, k.src = Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64())
	n := Load(Param(k.floats).Len(), GP64())
	k.inStep, k.outStep = s.unroll*k.inBlock, s.unroll*k.outBlock
	block := b(k)
	Label("loop")
	for k.block = range s.unroll {
		block()
	}
	ADDQ(U32(k.inStep), k.src)
	ADDQ(U32(k.outStep), k.dst)
	SUBQ(U32(s.unroll*s.elems), n)
	JNE(LabelRef("loop"))
	if k.stream {
		SFENCE()
	}
	VZEROUPPER()
	RET()
	for _, f := range k.rare {
		f()
	}
}

// in is byte at of the current block.
func (k *kernel) in(at int) Mem {
	return Mem{Base: k.src, Disp: k.block*k.inBlock + at}
}

// out is byte at of the current block's destination.
func (k *kernel) out(at int) Mem {
	return Mem{Base: k.dst, Disp: k.block*k.outBlock + at}
}

// store writes floats from element at of the current block on.
func (k *kernel) store(y VecVirtual, at int) {
	if k.stream {
		VMOVNTPS(y, k.out(4*at))
	} else {
		VMOVUPS(y, k.out(4*at))
	}
}

// constants are those already in the file.
var constants = map[string]Mem{}

// bytes32 is the address of 32 constant bytes.
func bytes32(name string, f func(i int) byte) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	var b [32]byte
	for i := range b {
		b[i] = f(i)
	}
	for i := 0; i < 32; i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	constants[name] = m
	return m
}

func bytesOf(name string, v byte) Mem {
	return bytes32(name, func(int) byte { return v })
}

func dwords(name string, f func(i int) uint32) Mem {
	return bytes32(name, func(i int) byte { return byte(f(i/4) >> (i % 4 * 8)) })
}

func dwordsOf(name string, v uint32) Mem {
	return dwords(name, func(int) uint32 { return v })
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
