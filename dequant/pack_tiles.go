package dequant

import (
	"github.com/tensormap/tensormap/layout"
)

// tileRows rows of tileBytes bytes of codes are turned around at a time. Half of the nearest cache
// holds them.
const (
	tileRows  = 64
	tileBytes = 256
)

// tiles turns the codes of a rectangle around, tile by tile.
func (x *expansion) tiles(dst []float32, matrix uint64, top, rows, left, n int) error {
	bits := x.code.Bits()
	codes := x.parts.Codes[matrix*x.matrixBytes()-x.codesFrom:][:x.matrixBytes()]
	if x.Permuted && !x.Bias && x.Pack == layout.PackGPTQ && x.GroupRows == 1 && n == int(x.Cols) && x.ScaleCols <= maxPermuted {
		done := rows &^ 7
		if err := x.permutedTiles(dst, codes, matrix, top, done); err != nil || done == rows {
			return err
		}
		dst, top, rows = dst[done*n:], top+done, rows-done
	}
	step := 8 * tileBytes / bits &^ 31
	for r := top; r < top+rows; {
		base := r
		if x.Pack == layout.PackAWQ {
			base &^= 7
		}
		until := min(base+tileRows, top+rows)
		for c := left &^ 31; c < left+n; c += step {
			end := min(c+step, left+n)
			x.turn(codes, base, until, c, end)
			from := max(c, left)
			bit, s := (from-c)*bits, x.strip(matrix, from)
			for i := r; i < until; i++ {
				turned := x.scratch.codes[(i-base)*tileBytes+bit/8:]
				part := dst[(i-top)*n:][from-left : end-left]
				if err := x.row(part, turned, bit%8, i, s); err != nil {
					return err
				}
			}
		}
		r = until
	}
	return nil
}

// turn puts rows base to until-1 of columns c to end-1 into the scratch. base is a multiple of 8 in
// PackAWQ, and c one of 32.
func (x *expansion) turn(codes []byte, base, until, c, end int) {
	switch x.Pack {
	case layout.PackAWQ:
		x.turnAWQ(codes, base, until, c, end)
	case layout.PackPlanes:
		x.turnPlanes(codes, base, until, c, end)
	default:
		x.turnColumns(codes, base, until, c, ((end-c)*x.code.Bits()+31)/32)
	}
}

// turnColumns does what turn does for PackGPTQ: a row of the scratch gets this number of words, from a column on. In the
// codes the words of all rows lie side by side.
func (x *expansion) turnColumns(codes []byte, base, until, c, words int) {
	stride := 4 * int(x.Rows)
	turnWords(x.scratch.codes[:], tileBytes, codes[c/32*x.code.Bits()*stride+4*base:], stride, words, until-base)
}
