package main

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A kernel is the function being generated: a loop over blocks, or over 32 plain numbers at a
// time. Several blocks an iteration were not faster.
type kernel struct {
	floats   string   // the parameter that holds float32s
	elems    int      // elements of an iteration
	in, out  int      // bytes by which it advances source and destination; a body may do the latter itself
	stream   bool     // store past the caches
	dst, src Register // advance with every iteration
	rare     []func() // generate what is placed after the loop
}

// A body generates the constants that a kernel keeps in registers, and returns what generates
// an iteration.
type body func(k *kernel) func()

const expandSignature = "func(dst []float32, src []byte)"

// expand generates name, which does what the portable loop does for elements of size bytes in
// all, and name+"Stream".
func expand(name, generic string, elems, size int, b body) {
	k := kernel{floats: "dst", elems: elems, in: size, out: 4 * elems}
	k.function(name, generic+".", expandSignature, b)
	k = kernel{floats: "dst", elems: elems, in: size, out: 4 * elems, stream: true}
	k.function(name+"Stream", generic+", storing past the caches.", expandSignature, b)
}

// expandNumbers is expand for plain numbers of size bytes each.
func expandNumbers(name, generic string, size int, b body) { expand(name, generic, 32, 32*size, b) }

// function generates one function. The length of the float32s says how often it loops.
func (k *kernel) function(name, what, signature string, b body) {
	TEXT(name, attr.NOSPLIT, signature)
	Doc(name + " is " + what)
	Pragma("noescape")
	k.dst, k.src = Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64())
	n := Load(Param(k.floats).Len(), GP64())
	iteration := b(k)
	Label("loop")
	iteration()
	ADDQ(U32(k.in), k.src)
	if k.out > 0 {
		ADDQ(U32(k.out), k.dst)
	}
	SUBQ(U32(k.elems), n)
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

// from is byte at of what the iteration reads.
func (k *kernel) from(at int) Mem { return Mem{Base: k.src, Disp: at} }

// to is byte at of what it writes.
func (k *kernel) to(at int) Mem { return Mem{Base: k.dst, Disp: at} }

// store writes floats as elements from at on.
func (k *kernel) store(y VecVirtual, at int) {
	if k.stream {
		VMOVNTPS(y, k.to(4*at))
	} else {
		VMOVUPS(y, k.to(4*at))
	}
}

// A constant is data that several functions may share.
type constant struct {
	bytes []byte
	at    Mem
}

var constants = map[string]constant{}

// data is the address of constant bytes, a multiple of eight of them.
func data(name string, b []byte) Mem {
	if c, ok := constants[name]; ok {
		if !bytes.Equal(c.bytes, b) {
			panic("two constants are named " + name)
		}
		return c.at
	}
	at := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	constants[name] = constant{b, at}
	return at
}

// bytes32 is the address of a constant vector.
func bytes32(name string, f func(i int) byte) Mem {
	b := make([]byte, 32)
	for i := range b {
		b[i] = f(i)
	}
	return data(name, b)
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
