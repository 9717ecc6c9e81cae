package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func transposers() {
	transposer("transposeWords", "func(dst []byte, dstStride int, src []byte, srcStride, rows, columns int)", wordTiles)
	transposer("transposeNibbles", "func(dst []byte, dstStride, plane int, src []byte, srcStride, rows, columns int)", nibbleTiles)
}

// A tile is eight rows of eight words, and the place that they go to.
type tile struct {
	src, stride, stride3, dst GPVirtual
}

// at returns base + i·stride, for i up to 3.
func at(base, stride, stride3 GPVirtual, i int) Mem {
	switch i {
	case 0:
		return Mem{Base: base}
	case 3:
		return Mem{Base: base, Index: stride3, Scale: 1}
	}
	return Mem{Base: base, Index: stride, Scale: uint8(i)}
}

// transposer generates a function that goes through its tiles row by row, so that each line of the
// source is read once. body returns generators: store stores a tile, right moves dst to the next
// tile, down to the next row of tiles.
func transposer(name, signature string, body func() (store func(t *tile), right, down func(by GPVirtual))) {
	TEXT(name+level, attr.NOSPLIT, signature)
	Doc(fmt.Sprintf("%s does what %s does.", name+level, name))
	Pragma("noescape")
	load := func(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }
	row, out := Load(Param("src").Base(), GP64()).(GPVirtual), Load(Param("dst").Base(), GP64()).(GPVirtual)
	rows := load("rows")
	t := &tile{src: GP64(), stride: load("srcStride"), stride3: GP64(), dst: GP64()}
	LEAQ(Mem{Base: t.stride, Index: t.stride, Scale: 2}, t.stride3)
	store, right, down := body()

	Label("row")
	columns := GP64()
	MOVQ(argument("columns"), columns)
	MOVQ(row, t.src)
	MOVQ(out, t.dst)
	Label("tile")
	store(t)
	ADDQ(U8(32), t.src)
	right(t.dst)
	SUBQ(U8(8), columns)
	JNE(LabelRef("tile"))
	LEAQ(Mem{Base: row, Index: t.stride, Scale: 8}, row)
	down(out)
	SUBQ(U8(8), rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// wordTiles joins lanes of rows four apart, and turns squares of four words around in them.
func wordTiles() (store func(t *tile), right, down func(by GPVirtual)) {
	stride, stride3 := Load(Param("dstStride"), GP64()).(GPVirtual), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	store = func(t *tile) {
		below, dst := GP64(), GP64()
		LEAQ(Mem{Base: t.src, Index: t.stride, Scale: 4}, below)
		MOVQ(t.dst, dst)
		for half := range 2 {
			var r [4]VecVirtual
			for i := range r {
				r[i] = YMM()
				VBROADCASTI128(at(t.src, t.stride, t.stride3, i).Offset(16*half), r[i])
				VINSERTI128(Imm(1), at(below, t.stride, t.stride3, i).Offset(16*half), r[i], r[i])
			}
			for c, y := range turned(r) {
				VMOVDQU(y, at(dst, stride, stride3, c))
			}
			if half == 0 {
				LEAQ(Mem{Base: dst, Index: stride, Scale: 4}, dst)
			}
		}
	}
	right = func(dst GPVirtual) { LEAQ(Mem{Base: dst, Index: stride, Scale: 8}, dst) }
	down = func(dst GPVirtual) { ADDQ(U8(32), dst) }
	return store, right, down
}

// nibbleTiles swaps parts of words between rows, as the portable loop does.
func nibbleTiles() (store func(t *tile), right, down func(by GPVirtual)) {
	bytes, nibbles := keep(dwordsOf("even_bytes", 0x00ff00ff)), keep(dwordsOf("even_nibbles", 0x0f0f0f0f))
	stride, plane, plane3 := Load(Param("dstStride"), GP64()).(GPVirtual), Load(Param("plane"), GP64()).(GPVirtual), GP64()
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	store = func(t *tile) {
		below, dst := GP64(), GP64()
		LEAQ(Mem{Base: t.src, Index: t.stride, Scale: 4}, below)
		var w [8]VecVirtual
		for i := range w {
			base := t.src
			if i >= 4 {
				base = below
			}
			w[i] = YMM()
			VMOVDQU(at(base, t.stride, t.stride3, i%4), w[i])
		}
		for i := range 4 {
			a, b := YMM(), YMM()
			VPSLLD(Imm(16), w[i+4], b)
			VPSRLD(Imm(16), w[i], a)
			VPBLENDW(Imm(0xaa), b, w[i], w[i])
			VPBLENDW(Imm(0xaa), w[i+4], a, w[i+4])
		}
		swap := func(i, j, shift int, mask VecVirtual) {
			d := YMM()
			VPSRLD(Imm(uint64(shift)), w[i], d)
			VPXOR(w[j], d, d)
			VPAND(mask, d, d)
			VPXOR(d, w[j], w[j])
			VPSLLD(Imm(uint64(shift)), d, d)
			VPXOR(d, w[i], w[i])
		}
		for _, i := range []int{0, 1, 4, 5} {
			swap(i, i+2, 8, bytes)
		}
		for i := 0; i < 8; i += 2 {
			swap(i, i+1, 4, nibbles)
		}
		MOVQ(t.dst, dst)
		for k, from := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
			if k == 4 {
				LEAQ(Mem{Base: dst, Index: plane, Scale: 4}, dst)
			}
			VMOVDQU(w[from], at(dst, plane, plane3, k%4))
		}
	}
	right = func(dst GPVirtual) { ADDQ(U8(32), dst) }
	down = func(dst GPVirtual) { ADDQ(stride, dst) }
	return store, right, down
}
