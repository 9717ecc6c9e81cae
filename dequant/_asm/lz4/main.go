// Lz4 generates the decoder of package lz4block for AVX2, after the LZ4 Block Format Description.
// Run it with go generate in that package's folder.
//
// A block is a list of sequences: a token, literals, and a match, which is as many bytes again
// from a distance behind. The decoder copies whole vectors, beyond the end of a copy, as long
// as they stay clear of the ends of dst and src. The rest is copied to the byte. It calls
// nothing, and reads every byte that it checks once: src may be mapped.
//
// Operands stand in the order of Go's assembler: the destination last.
package main

import (
	"encoding/binary"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// clear is how far from the ends vectors are copied: a step of any loop may be this much too long.
const clear = 64

var (
	dst, dstEnd, dstClear = RDI, R8, R11 // the last one is clear bytes before the end
	src, srcEnd, srcClear = RSI, R9, R12
	dstBegin              = R10

	token    = RAX
	literals = RCX
	length   = RAX // of a match, once the token's upper half is done with
	match    = RBX // from where it is copied
	distance = R15
	upto     = R14 // where what is being copied ends
	fastUpto = RCX // where vectors end
	step     = RDX
	scratch  = RDX
	patterns = R13
)

func main() {
	ConstraintExpr("!purego,amd64")
	TEXT("decodeAVX2", attr.NOSPLIT, "func(dst, src []byte) bool")
	Doc("decodeAVX2 expands the LZ4 block src into dst, as Decode does. Another program may change src",
		"meanwhile: then dst holds anything.")
	Pragma("noescape")
	Load(Param("dst").Base(), dst)
	Load(Param("dst").Len(), dstEnd)
	Load(Param("src").Base(), src)
	Load(Param("src").Len(), srcEnd)
	MOVQ(dst, dstBegin)
	ADDQ(dst, dstEnd)
	ADDQ(src, srcEnd)
	LEAQ(at(dstEnd, -clear), dstClear)
	LEAQ(at(srcEnd, -clear), srcClear)
	LEAQ(table(), patterns)

	Label("sequence")
	CMPQ(src, srcEnd)
	JAE(LabelRef("end"))
	MOVBLZX(at(src, 0), token.As32())
	INCQ(src)
	MOVL(token.As32(), literals.As32())
	SHRL(U8(4), literals.As32())
	CMPL(literals.As32(), U8(15))
	JE(LabelRef("long_literals"))
	copyLiterals()
	readMatch()
	copyMatch()

	extend("long_literals", literals, "literals")
	literalsExactly()
	matchExactly()

	Label("end")
	CMPQ(dst, dstEnd)
	JNE(LabelRef("bad"))
	result(1)
	Label("bad")
	result(0)
	Generate()
}

func at(base GPPhysical, disp int) Mem { return Mem{Base: base, Disp: disp} }

func result(v uint64) {
	VZEROUPPER()
	MOVB(U8(v), AL)
	Store(AL, ReturnIndex(0))
	RET()
}

// extend generates a loop that adds the bytes that follow a length of 15 to n, up to one that is
// not 255.
func extend(label string, n GPPhysical, then string) {
	more := RBX // match is not known yet, or is computed anew
	Label(label)
	CMPQ(src, srcEnd)
	JAE(LabelRef("bad"))
	MOVBLZX(at(src, 0), more.As32())
	INCQ(src)
	ADDQ(more, n)
	CMPL(more.As32(), U32(255))
	JE(LabelRef(label))
	JMP(LabelRef(then))
}

// copyLiterals ends with a match to read, clear of src's end, or goes on to literals_exactly.
func copyLiterals() {
	Label("literals")
	CMPQ(src, srcClear)
	JA(LabelRef("literals_exactly"))
	CMPQ(dst, dstClear)
	JA(LabelRef("literals_exactly"))
	CMPL(literals.As32(), U8(32))
	JA(LabelRef("many_literals"))
	VMOVDQU(at(src, 0), Y0)
	VMOVDQU(Y0, at(dst, 0))
	ADDQ(literals, src)
	ADDQ(literals, dst)
	JMP(LabelRef("match"))

	Label("many_literals")
	LEAQ(Mem{Base: dst, Index: literals, Scale: 1}, upto)
	CMPQ(upto, dstClear)
	JA(LabelRef("literals_exactly"))
	LEAQ(Mem{Base: src, Index: literals, Scale: 1}, match)
	CMPQ(match, srcClear)
	JA(LabelRef("literals_exactly"))
	Label("literal_vectors")
	VMOVDQU(at(src, 0), Y0)
	VMOVDQU(Y0, at(dst, 0))
	ADDQ(U8(32), src)
	ADDQ(U8(32), dst)
	CMPQ(dst, upto)
	JB(LabelRef("literal_vectors"))
	MOVQ(upto, dst)
	MOVQ(match, src)
}

// readMatch reads the distance and the length. src holds both bytes of the distance.
func readMatch() {
	Label("match")
	MOVWLZX(at(src, 0), distance.As32())
	ADDQ(U8(2), src)
	ANDL(U8(15), length.As32())
	TESTL(distance.As32(), distance.As32())
	JZ(LabelRef("bad"))
	MOVQ(dst, scratch)
	SUBQ(dstBegin, scratch)
	CMPQ(distance, scratch)
	JA(LabelRef("bad"))
	CMPL(length.As32(), U8(15))
	JE(LabelRef("long_match"))
}

// copyMatch copies 18 bytes at once, or vectors.
func copyMatch() {
	ADDL(U8(4), length.As32())
	CMPQ(dst, dstClear)
	JA(LabelRef("match_exactly"))
	MOVQ(dst, match)
	SUBQ(distance, match)
	CMPL(distance.As32(), U8(16))
	JB(LabelRef("short_pattern"))
	VMOVDQU(at(match, 0), X0)
	VMOVDQU(X0, at(dst, 0))
	MOVWLZX(at(match, 16), scratch.As32()) // the store may just have written them
	MOVW(scratch.As16(), at(dst, 16))
	ADDQ(length, dst)
	JMP(LabelRef("sequence"))

	Label("short_pattern")
	pattern()
	VMOVDQU(X0, at(dst, 0))
	// A distance of 1 makes the last byte one that this copy writes.
	MOVBLZX(at(match, 16), scratch.As32())
	MOVB(scratch.As8(), at(dst, 16))
	MOVBLZX(at(match, 17), scratch.As32())
	MOVB(scratch.As8(), at(dst, 17))
	ADDQ(length, dst)
	JMP(LabelRef("sequence"))

	extend("long_match", length, "vectors")
	Label("vectors")
	ADDQ(U8(4), length)
	LEAQ(Mem{Base: dst, Index: length, Scale: 1}, upto)
	CMPQ(upto, dstEnd)
	JA(LabelRef("bad"))
	CMPQ(dst, dstClear)
	JAE(LabelRef("match_bytes"))
	MOVQ(upto, fastUpto)
	CMPQ(fastUpto, dstClear)
	CMOVQHI(dstClear, fastUpto)
	MOVQ(dst, match)
	SUBQ(distance, match)
	CMPL(distance.As32(), U8(32))
	JAE(LabelRef("far"))
	CMPL(distance.As32(), U8(16))
	JB(LabelRef("long_pattern"))

	copyVectors("near", X0, 16)
	copyVectors("far", Y0, 32)

	Label("long_pattern")
	pattern()
	MOVQ(Mem{Base: patterns, Index: step, Scale: 1, Disp: 16 * 16}, step)
	Label("pattern_vectors")
	VMOVDQU(X0, at(dst, 0))
	VMOVDQU(X0, Mem{Base: dst, Index: step, Scale: 1})
	LEAQ(Mem{Base: dst, Index: step, Scale: 2}, dst)
	CMPQ(dst, fastUpto)
	JB(LabelRef("pattern_vectors"))
	JMP(LabelRef("vectors_done"))

	Label("vectors_done")
	MOVQ(fastUpto, dst)
	CMPQ(dst, upto)
	JB(LabelRef("match_bytes"))
	JMP(LabelRef("sequence"))
}

// copyVectors copies a match whose distance is at least the size of v.
func copyVectors(label string, v VecPhysical, size uint8) {
	Label(label)
	VMOVDQU(at(match, 0), v)
	VMOVDQU(v, at(dst, 0))
	ADDQ(U8(size), match)
	ADDQ(U8(size), dst)
	CMPQ(dst, fastUpto)
	JB(LabelRef(label))
	JMP(LabelRef("vectors_done"))
}

// pattern fills X0 with the repeated bytes of a distance below 16, and leaves 16 times the distance
// in step.
func pattern() {
	MOVL(distance.As32(), step.As32())
	SHLL(U8(4), step.As32())
	VMOVDQU(at(match, 0), X0)
	VPSHUFB(Mem{Base: patterns, Index: step, Scale: 1}, X0, X0)
}

// table returns a mask for every distance below 16, with which VPSHUFB repeats that many bytes.
// Behind all masks it has the most bytes that 16 hold of whole repetitions.
func table() Mem {
	m := GLOBL("repeat", attr.RODATA|attr.NOPTR)
	var b [2 * 16 * 16]byte
	for distance := 1; distance < 16; distance++ {
		for i := range 16 {
			b[16*distance+i] = byte(i % distance)
		}
		b[16*16+16*distance] = byte(16 - 16%distance)
	}
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	return m
}

// literalsExactly copies literals that lie near an end, and finds the end of the block.
func literalsExactly() {
	Label("literals_exactly")
	MOVQ(srcEnd, scratch)
	SUBQ(src, scratch)
	CMPQ(literals, scratch)
	JA(LabelRef("bad"))
	MOVQ(dstEnd, scratch)
	SUBQ(dst, scratch)
	CMPQ(literals, scratch)
	JA(LabelRef("bad"))
	Label("exact_vectors")
	CMPQ(literals, U8(32))
	JB(LabelRef("literal_bytes"))
	VMOVDQU(at(src, 0), Y0)
	VMOVDQU(Y0, at(dst, 0))
	ADDQ(U8(32), src)
	ADDQ(U8(32), dst)
	SUBQ(U8(32), literals)
	JMP(LabelRef("exact_vectors"))
	Label("literal_bytes")
	TESTQ(literals, literals)
	JZ(LabelRef("literals_done"))
	MOVBLZX(at(src, 0), scratch.As32())
	MOVB(scratch.As8(), at(dst, 0))
	INCQ(src)
	INCQ(dst)
	DECQ(literals)
	JMP(LabelRef("literal_bytes"))
	Label("literals_done")
	CMPQ(src, srcEnd)
	JE(LabelRef("last_token"))
	LEAQ(at(src, 2), scratch)
	CMPQ(scratch, srcEnd)
	JBE(LabelRef("match"))
	JMP(LabelRef("bad"))
	Label("last_token") // has no match
	TESTL(U32(15), token.As32())
	JZ(LabelRef("end"))
	JMP(LabelRef("bad"))
}

// matchExactly copies a match that lies near the end.
func matchExactly() {
	Label("match_exactly")
	LEAQ(Mem{Base: dst, Index: length, Scale: 1}, upto)
	CMPQ(upto, dstEnd)
	JA(LabelRef("bad"))
	Label("match_bytes")
	MOVQ(dst, match)
	SUBQ(distance, match)
	Label("match_byte")
	MOVBLZX(at(match, 0), scratch.As32())
	MOVB(scratch.As8(), at(dst, 0))
	INCQ(match)
	INCQ(dst)
	CMPQ(dst, upto)
	JB(LabelRef("match_byte"))
	JMP(LabelRef("sequence"))
}
