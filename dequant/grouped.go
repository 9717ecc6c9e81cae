package dequant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// Grouped expands what a [layout.Grouped] describes. Difference, product and sum are each rounded to float32.
type Grouped layout.Grouped

// Parts are the stored parts of some elements of a Grouped tensor.
type Parts struct {
	Codes []byte // that Grouped.Codes names
	// Scales are those that Grouped.Scales names: by rows of groups, as the groups lie in a matrix.
	Scales []float32
	// Offsets are zero points or biases in the same order, or one for all elements. None means 0.
	Offsets []float32
	// GroupOf is the column of groups of each column of a Permuted tensor.
	GroupOf []int32
}

// Check returns why nothing can be so. It wraps errors.ErrUnsupported if the code does not go with
// Pack or Bias. It wraps ErrLength if sizes do not fit each other, or 56 bits.
func (g Grouped) Check() error {
	switch {
	case int(g.Code) >= numCodes || codeValues[g.Code] == nil || g.Pack > layout.PackPlanes, g.Bias && g.Code > 8,
		g.Pack == layout.PackGPTQ && g.Code > 8, g.Pack == layout.PackPlanes && (g.Code > 7 || 32%g.Code.Bits() == 0), g.Pack == layout.PackAWQ && g.Code != 4,
		g.Pack == layout.PackWords && g.Code > 8, g.inSlabs() && g.Code > 4 && g.Code != 8, g.Pack == layout.PackLowSlabs && g.Code == 3,
		g.Code == layout.CodeInt8By127 && (g.GroupCols != 0 || g.Permuted):
		return fmt.Errorf("dequant: codes %v in packing %v, bias %v: %w", g.Code, g.Pack, g.Bias, errors.ErrUnsupported)
	}
	// A tensor of 2⁵⁶ elements exceeds every memory. Nothing below it overflows.
	const most = 1 << 56
	if hi, n := bits.Mul64(g.Rows, g.Cols); hi != 0 || n > most || max(g.Rows, g.Cols) > min(most, math.MaxInt) {
		return fmt.Errorf("dequant: a matrix of %d × %d elements: %w", g.Rows, g.Cols, ErrLength)
	}
	if g.Pack == layout.PackPlanes && g.Cols%32 != 0 {
		return fmt.Errorf("dequant: %d columns in planes of 32: %w", g.Cols, ErrLength)
	}
	if g.RowBytes != 0 {
		hi, n := bits.Mul64(g.Rows, g.RowBytes)
		if !g.inRows() || g.RowBytes < g.leastRowBytes() || hi != 0 || n > most {
			return fmt.Errorf("dequant: %d bytes for a row of %d codes of %d bits: %w", g.RowBytes, g.Cols, g.Code.Bits(), ErrLength)
		}
	}
	if g.ScaleCols != 0 {
		hi, n := bits.Mul64(g.groupRows(), g.ScaleCols)
		if g.ScaleCols < groups(g.Cols, g.GroupCols) || hi != 0 || n > most {
			return fmt.Errorf("dequant: %d scales for a row of %d columns in groups of %d: %w", g.ScaleCols, g.Cols, g.GroupCols, ErrLength)
		}
	}
	return nil
}

// groups returns the number of groups of size that n elements make; a size of 0 means n.
func groups(n, size uint64) uint64 {
	switch {
	case n == 0:
		return 0
	case size == 0 || size >= n:
		return 1
	}
	return (n-1)/size + 1
}

func (g Grouped) inRows() bool { return g.Pack == layout.PackRows || g.Pack == layout.PackWords }

func (g Grouped) inSlabs() bool { return g.Pack == layout.PackSlabs || g.Pack == layout.PackLowSlabs }

// Dense reports whether the codes of elements [first, first+n) lie together. If not, Codes names those of whole
// matrices. g is one for which Check returns nil.
func (g Grouped) Dense(first, n uint64) bool {
	switch {
	case n == 0 || g.Rows == 0 || g.Cols == 0 || g.inRows():
		return true
	case !g.inSlabs():
		return false
	}
	row, until := first/g.Cols, (first+n-1)/g.Cols
	return row/g.Rows == until/g.Rows && row%g.Rows/g.slab() == until%g.Rows/g.slab()
}

// perWord returns the number of whole codes in a word of PackWords.
func (g Grouped) perWord() uint64 { return uint64(32 / g.Code.Bits()) }

// leastRowBytes returns the bytes that the codes of one row take, without padding.
func (g Grouped) leastRowBytes() uint64 {
	if g.Pack == layout.PackWords {
		return 4 * groups(g.Cols, g.perWord())
	}
	return (g.Cols*uint64(g.Code.Bits()) + 7) / 8
}

func (g Grouped) rowBytes() uint64 {
	if g.RowBytes != 0 {
		return g.RowBytes
	}
	return g.leastRowBytes()
}

func (g Grouped) groupRows() uint64 { return groups(g.Rows, g.GroupRows) }

func (g Grouped) scaleCols() uint64 {
	if g.ScaleCols != 0 {
		return g.ScaleCols
	}
	return groups(g.Cols, g.GroupCols)
}

// matrixBytes returns the size of the codes of one matrix that do not lie by rows.
func (g Grouped) matrixBytes() uint64 {
	switch g.Pack {
	case layout.PackGPTQ, layout.PackPlanes:
		return 4 * groups(g.Cols*uint64(g.Code.Bits()), 32) * g.Rows
	case layout.PackAWQ:
		return 4 * groups(g.Rows, 8) * g.Cols
	}
	return g.slab() * g.Cols * g.slabUnit()
}

// slabUnit returns the bytes that hold one code of each slab.
func (g Grouped) slabUnit() uint64 {
	if g.Code == 3 {
		return 4
	}
	return 1
}

// inSlab returns where the code of an element begins, in a part whose codes lie in slabs. row counts through all
// matrices.
func (g Grouped) inSlab(row, col uint64) uint64 {
	return row/g.Rows*g.matrixBytes() + (row%g.Rows%g.slab()*g.Cols+col)*g.slabUnit()
}

// slab returns the number of rows in a slab.
func (g Grouped) slab() uint64 {
	if g.Code == 3 {
		return groups(g.Rows, 10)
	}
	return groups(g.Rows, 8/uint64(g.Code.Bits()))
}

// Codes returns offset and size of the codes of elements [first, first+n) in their part. No elements
// take no bytes. Codes that are not Dense come in whole matrices. g is one for which Check returns nil.
func (g Grouped) Codes(first, n uint64) (off, size uint64) {
	if n == 0 || g.Rows == 0 || g.Cols == 0 {
		return 0, 0
	}
	last := first + n - 1
	if !g.inRows() {
		if g.Dense(first, n) {
			return g.inSlab(first/g.Cols, first%g.Cols), n * g.slabUnit()
		}
		matrix, each := g.Rows*g.Cols, g.matrixBytes()
		off = first / matrix * each
		return off, (last/matrix+1)*each - off
	}
	off, _ = g.at(first)
	end, bit := g.at(last)
	if g.Pack == layout.PackWords {
		return off, end + 4 - off
	}
	return off, end + uint64(bit+g.Code.Bits()+7)/8 - off
}

// at returns where the code of an element begins, in a part whose codes lie by rows: at a bit of a
// byte, or of the word there.
func (g Grouped) at(i uint64) (byte uint64, bit int) {
	row, col, b := i/g.Cols, i%g.Cols, uint64(g.Code.Bits())
	if g.Pack == layout.PackWords {
		return row*g.rowBytes() + 4*(col/g.perWord()), int(col % g.perWord() * b)
	}
	return row*g.rowBytes() + col*b/8, int(col * b % 8)
}

// Scales returns which scales elements [first, first+n) have: size of them, from scale off on.
// Permuted columns have whole rows of scales. g is one for which Check returns nil.
func (g Grouped) Scales(first, n uint64) (off, size uint64) {
	if n == 0 || g.Rows == 0 || g.Cols == 0 {
		return 0, 0
	}
	last := first + n - 1
	row, until := first/g.Cols, last/g.Cols
	from, to := uint64(0), groups(g.Cols, g.GroupCols)-1
	if row == until && !g.Permuted {
		from, to = g.column(first%g.Cols), g.column(last%g.Cols)
	}
	off = g.scaleRow(row)*g.scaleCols() + from
	return off, g.scaleRow(until)*g.scaleCols() + to + 1 - off
}

// column returns the column of groups of a column.
func (g Grouped) column(col uint64) uint64 {
	if g.GroupCols == 0 {
		return 0
	}
	return col / g.GroupCols
}

// scaleRow returns the row of groups of a row, counted through all matrices.
func (g Grouped) scaleRow(row uint64) uint64 {
	if g.GroupRows == 0 {
		return row / g.Rows
	}
	return row/g.Rows*g.groupRows() + row%g.Rows/g.GroupRows
}

// Expand writes elements [first, first+len(dst)) to dst. If p lacks bytes or scales that Codes and
// Scales name, or has others, the error wraps ErrLength. So
// does it if GroupOf names a group that does not exist. The rest is as for Codec.Expand.
func (g Grouped) Expand(dst []float32, p Parts, first uint64, cores int) error {
	if err := g.Check(); err != nil || len(dst) == 0 {
		return err
	}
	if err := g.fits(&p, first, uint64(len(dst))); err != nil {
		return err
	}
	large := isLarge(len(dst), len(p.Codes))
	if cores == 1 || len(dst) < simd.ParallelMin {
		return g.expand(dst, p, first, large)
	}
	return g.expandParallel(dst, p, first, cores, large)
}

// expandParallel shares dst out to goroutines. Its closure would cost small tensors an allocation.
func (g Grouped) expandParallel(dst []float32, p Parts, first uint64, cores int, large bool) error {
	grain := simd.ParallelGrain
	if g.Pack == layout.PackGPTQ || g.Pack == layout.PackPlanes || g.Pack == layout.PackAWQ {
		grain = int(max(simd.ParallelGrain, min(tileRows*g.Cols, 1<<24)))
	}
	// Shares begin with a multiple of the grain, counted from the first row.
	skip := int(first % g.Cols % uint64(grain))
	codes, _ := g.Codes(first, uint64(len(dst)))
	scales, _ := g.Scales(first, uint64(len(dst)))
	return simd.InParallel(cores, skip+len(dst), grain, func(lo, hi int) error {
		from := max(lo, skip) - skip
		part, at, n := p, first+uint64(from), uint64(hi-skip-from)
		off, size := g.Codes(at, n)
		part.Codes = p.Codes[off-codes:][:size]
		off, size = g.Scales(at, n)
		part.Scales = p.Scales[off-scales:][:size]
		if len(p.Offsets) > 1 {
			part.Offsets = p.Offsets[off-scales:][:size]
		}
		return g.expand(dst[from:hi-skip], part, at, large)
	})
}

// fits checks p against the elements, and makes offsets of none.
func (g Grouped) fits(p *Parts, first, n uint64) error {
	if g.Rows == 0 || g.Cols == 0 {
		return fmt.Errorf("dequant: %d elements of an empty matrix: %w", n, ErrLength)
	}
	if first+n < first || first+n > 1<<56 {
		return fmt.Errorf("dequant: %d elements from element %d: %w", n, first, ErrLength)
	}
	if _, size := g.Codes(first, n); size != uint64(len(p.Codes)) {
		return fmt.Errorf("dequant: elements %d to %d take %d bytes of codes, not %d: %w", first, first+n, size, len(p.Codes), ErrLength)
	}
	if _, size := g.Scales(first, n); size != uint64(len(p.Scales)) {
		return fmt.Errorf("dequant: elements %d to %d have %d scales, not %d: %w", first, first+n, size, len(p.Scales), ErrLength)
	}
	if (g.Permuted || len(p.GroupOf) > 0) && uint64(len(p.GroupOf)) != g.Cols {
		return fmt.Errorf("dequant: %d groups for %d columns: %w", len(p.GroupOf), g.Cols, ErrLength)
	}
	switch n := len(p.Offsets); {
	case n > 0 && g.Code == layout.CodeInt8By127:
		return fmt.Errorf("dequant: offsets of bitsandbytes' int8, which has none: %w", errors.ErrUnsupported)
	case n == 0:
		p.Offsets = noOffset[:]
	case n != 1 && n != len(p.Scales):
		return fmt.Errorf("dequant: %d offsets beside %d scales: %w", len(p.Offsets), len(p.Scales), ErrLength)
	}
	return nil
}

// noOffset serves tensors without offsets, and unit codes without scales.
var noOffset, unit = [1]float32{0}, [1]float32{1}

// expand runs on the caller's core, over parts that fit.
func (g Grouped) expand(dst []float32, p Parts, first uint64, large bool) error {
	g.ScaleCols = g.scaleCols() // once
	if g.inRows() {
		g.RowBytes = g.rowBytes()
	}
	x := expansion{Grouped: g, parts: p, code: g.Code, large: large}
	x.codesFrom, _ = g.Codes(first, uint64(len(dst)))
	x.scalesFrom, _ = g.Scales(first, uint64(len(dst)))
	if group, ok := g.flat(); ok {
		byte, bit := g.at(first)
		at := first/group - x.scalesFrom
		if len(p.Offsets) > 1 {
			p.Offsets = p.Offsets[at:]
		}
		x.run(dst, p.Codes[byte-x.codesFrom:], bit, p.Scales[at:], p.Offsets, int(first%group), int(group))
		return nil
	}
	x.each = g.Permuted || g.GroupCols == 1 && g.Cols > 1
	if g.Pack != layout.PackRows {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		x.scratch = s
	}
	x.group = int(g.Cols)
	if g.GroupCols != 0 {
		x.group = int(min(g.GroupCols, g.Cols))
	}
	// The first row may begin inside, and the last one end there. All rows between are whole.
	for row, col := first/g.Cols, first%g.Cols; len(dst) > 0; col = 0 {
		rows, n := 1, int(min(g.Cols-col, uint64(len(dst))))
		if col == 0 && uint64(len(dst)) >= g.Cols {
			rows = int(min(uint64(len(dst))/g.Cols, g.Rows-row%g.Rows))
		}
		if err := x.rectangle(dst[:rows*n], row, rows, col, n); err != nil {
			return err
		}
		row, dst = row+uint64(rows), dst[rows*n:]
	}
	return nil
}

// flat returns the size of a group if all elements of the tensor are a sequence of equal groups.
func (g Grouped) flat() (group uint64, ok bool) {
	if g.Pack != layout.PackRows || g.Permuted || g.Cols*uint64(g.Code.Bits())%8 != 0 || g.rowBytes() != g.leastRowBytes() || g.Cols == 1 {
		return 0, false
	}
	switch {
	case g.GroupRows == 0 && g.GroupCols == 0:
		return g.Rows * g.Cols, g.scaleCols() == 1 && g.Rows*g.Cols <= math.MaxInt32
	case g.GroupRows != 1 && g.Rows != 1:
		return 0, false
	}
	if group = g.Cols; g.GroupCols != 0 {
		group = min(g.GroupCols, g.Cols)
	}
	return group, 1 < group && group <= math.MaxInt32 && g.Cols%group == 0 && g.scaleCols() == g.Cols/group
}

// An expansion makes values of one range of elements.
type expansion struct {
	Grouped
	parts                 Parts
	code                  layout.Code // of the codes that run gets
	codesFrom, scalesFrom uint64      // what the parts begin with
	group                 int         // columns that share a scale
	each, large           bool        // each: every element has a scale of its own
	scratch               *scratch
}

// A scratch holds codes that were unpacked or turned around, and the scales of permuted columns.
type scratch struct {
	codes, planes   [tileRows * tileBytes]byte
	scales, offsets []float32
}

// tileRows rows of tileBytes bytes of codes are turned around at a time. Half of the nearest cache
// holds them.
const (
	tileRows  = 64
	tileBytes = 256
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// A strip is consecutive columns of one matrix, for any of its rows.
type strip struct {
	scales        uint64 // the scales of the matrix's first row of groups begin here in Parts
	col           int
	first, within int // the first column's group, and its place there
}

func (x *expansion) strip(matrix uint64, col int) strip {
	s := strip{scales: matrix*x.groupRows()*x.scaleCols() - x.scalesFrom, col: col}
	if col > 0 {
		s.first, s.within = col/x.group, col%x.group
	}
	return s
}

// rectangle expands n columns, from col on, of consecutive rows of one matrix.
func (x *expansion) rectangle(dst []float32, row uint64, rows int, col uint64, n int) error {
	matrix, top := row/x.Rows, int(row%x.Rows)
	switch x.Pack {
	case layout.PackGPTQ, layout.PackPlanes, layout.PackAWQ:
		return x.tiles(dst, matrix, top, rows, int(col), n)
	case layout.PackRows:
		s := x.strip(matrix, int(col))
		byte, bit := x.at(row*x.Cols + col)
		for r := range rows {
			codes := x.parts.Codes[byte-x.codesFrom+uint64(r)*x.RowBytes:]
			if err := x.row(dst[r*n:][:n], codes, bit, top+r, s); err != nil {
				return err
			}
		}
		return nil
	}
	if x.inSlabs() {
		x.code = 8
	}
	for done := 0; done < len(dst); {
		r, c := done/n, done%n
		from := col + uint64(c)
		part := dst[done:min(len(dst), done+n-c, done+len(x.scratch.codes))]
		if all := x.together(top+r, rows-r); c == 0 && n == int(x.Cols) && all > 1 {
			part = dst[done:][:all*n]
		}
		codes := x.scratch.codes[:(len(part)*x.code.Bits()+7)/8]
		if x.Pack == layout.PackWords {
			x.joinWords(codes, row+uint64(r), from, len(part))
		} else {
			x.unpackSlab(codes, row+uint64(r), from)
		}
		if err := x.row(part, codes, 0, top+r, x.strip(matrix, int(from))); err != nil {
			return err
		}
		done += len(part)
	}
	return nil
}

// together returns how many rows of a slab, from a row on, fit the scratch and are a group each, or of one
// group. They are expanded as one.
func (x *expansion) together(row, rows int) int {
	if !x.inSlabs() || x.each || x.GroupRows > 1 || x.ScaleCols != 1 {
		return 1
	}
	slab := int(x.slab())
	return min(rows, slab-row%slab, len(x.scratch.codes)/int(x.Cols))
}

// joinWords writes n codes of a row, from a column on, without the unused bits of their words.
func (x *expansion) joinWords(codes []byte, row, col uint64, n int) {
	at, bit := x.Grouped.at(row*x.Cols + col)
	words, left := x.parts.Codes[at-x.codesFrom:], n*x.code.Bits()
	used := int(x.perWord()) * x.code.Bits()
	var joined uint64
	for have := 0; left > 0 && len(words) >= 4; words, bit = words[4:], 0 {
		taken := min(left, used-bit)
		word := uint64(binary.LittleEndian.Uint32(words)>>(bit&31)) & (1<<(taken&63) - 1)
		joined |= word << (have & 63)
		have, left = have+taken, left-taken
		if have >= 32 && len(codes) >= 4 {
			binary.LittleEndian.PutUint32(codes, uint32(joined))
			codes, joined, have = codes[4:], joined>>32, have-32
		}
	}
	for i := range codes {
		codes[i], joined = byte(joined), joined>>8
	}
}

// unpackSlab writes codes of consecutive rows of a slab as bytes, from a column of the first on.
func (x *expansion) unpackSlab(codes []byte, row, col uint64) {
	src := x.parts.Codes[x.inSlab(row, col)-x.codesFrom:]
	slab := row % x.Rows / x.slab()
	if x.Code == 3 {
		unpackThree(codes, src[:4*len(codes)], uint(27-3*slab)&31)
		return
	}
	shift, mask := uint(8-uint64(x.Code)*(slab+1))&7, uint64(1)<<x.Code-1
	if x.Pack == layout.PackLowSlabs {
		shift = uint(uint64(x.Code)*slab) & 7
	}
	src = src[:len(codes)]
	for each := mask * 0x0101010101010101; len(src) >= 32 && len(codes) >= 32; codes, src = codes[32:], src[32:] {
		binary.LittleEndian.PutUint64(codes, binary.LittleEndian.Uint64(src)>>shift&each)
		binary.LittleEndian.PutUint64(codes[8:], binary.LittleEndian.Uint64(src[8:])>>shift&each)
		binary.LittleEndian.PutUint64(codes[16:], binary.LittleEndian.Uint64(src[16:])>>shift&each)
		binary.LittleEndian.PutUint64(codes[24:], binary.LittleEndian.Uint64(src[24:])>>shift&each)
	}
	for i, b := range src {
		codes[i] = b >> shift & byte(mask)
	}
}

// unpackThree takes the three bits above shift out of each word.
func unpackThree(codes, words []byte, shift uint) {
	for ; len(codes) >= 4 && len(words) >= 16; codes, words = codes[4:], words[16:] {
		a := binary.LittleEndian.Uint64(words) >> shift & 0x7_0000_0007
		b := binary.LittleEndian.Uint64(words[8:]) >> shift & 0x7_0000_0007
		a |= b << 16
		binary.LittleEndian.PutUint32(codes, uint32(a|a>>24))
	}
	for i := range codes {
		codes[i] = byte(binary.LittleEndian.Uint32(words[4*i:])>>shift) & 7
	}
}

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

// maxPermuted is the largest number of groups that permutedTiles takes: 256 KiB of scales and offsets.
const maxPermuted = 512

// permutedTiles expands whole rows of permuted columns, a multiple of eight, tile by tile.
func (x *expansion) permutedTiles(dst []float32, codes []byte, matrix uint64, top, rows int) error {
	for i, g := range x.parts.GroupOf {
		if uint(g) >= uint(x.ScaleCols) {
			return x.noGroup(i)
		}
	}
	bits, n, words := x.code.Bits(), int(x.Cols), x.scratch.codes[:]
	step := 8 * tileBytes / bits &^ 31
	for r := 0; r < rows; r += tileRows {
		height := min(tileRows, rows-r)
		x.turnScales(int(x.strip(matrix, 0).scales)+(top+r)*int(x.ScaleCols), height)
		for c := 0; c < n; c += step {
			columns := min(step, n-c)
			for i := range groups(uint64(columns*bits), 32) {
				at := 4 * (int(c*bits/32+int(i))*int(x.Rows) + top + r)
				copy(words[i*4*tileRows:][:4*height], codes[at:])
			}
			for i := 0; i < height; i += 8 {
				to, scales, offsets := dst[(r+i)*n+c:], x.scratch.scales[i:], x.scratch.offsets[i:]
				whole := columns &^ 31
				if whole > 0 {
					active.permuted[bits](to, n, words[4*i:], whole, x.parts.GroupOf[c:], scales, offsets)
				}
				if whole < columns {
					generic.permuted[bits](to[whole:], n, words[whole*bits/32*4*tileRows+4*i:], columns-whole, x.parts.GroupOf[c+whole:], scales, offsets)
				}
			}
		}
	}
	return nil
}

// turnScales puts scales and offsets of so many rows into the scratch, those of a group together. at is
// the place of the first row's.
func (x *expansion) turnScales(at, rows int) {
	s, n := x.scratch, int(x.ScaleCols)
	if len(s.scales) < tileRows*n {
		s.scales, s.offsets = make([]float32, tileRows*n), make([]float32, tileRows*n)
	}
	transpose(s.scales, tileRows, x.parts.Scales[at:], rows, n)
	if len(x.parts.Offsets) > 1 {
		transpose(s.offsets, tileRows, x.parts.Offsets[at:], rows, n)
		return
	}
	for i := range s.offsets[:tileRows*n] {
		s.offsets[i] = x.parts.Offsets[0]
	}
}

// rescaleEach takes a scale and an offset for every element, or one offset for all.
func (x *expansion) rescaleEach(dst, scales, offsets []float32) {
	n := len(dst) &^ 7
	if x.Bias || len(offsets) == 1 || n == 0 {
		n = 0
	} else {
		active.each(dst[:n], scales, offsets)
		offsets = offsets[n:]
	}
	rescale(dst[n:], scales[n:], offsets, nil, x.Bias)
}

// noGroup returns the error of a column whose group has no scale.
func (x *expansion) noGroup(col int) error {
	return fmt.Errorf("dequant: column %d belongs to group %d of %d: %w", col, x.parts.GroupOf[col], x.ScaleCols, ErrLength)
}

// turn puts rows base to until-1 of columns c to end-1 into the scratch. base is a multiple of 8 in
// PackAWQ, and c one of 32.
func (x *expansion) turn(codes []byte, base, until, c, end int) {
	if x.Pack != layout.PackAWQ {
		stride, bits := 4*int(x.Rows), x.code.Bits()
		words := ((end-c)*bits + 31) / 32
		if x.Pack == layout.PackPlanes {
			words = (end - c + 31) / 32 * bits
		}
		turnWords(x.scratch.codes[:], tileBytes, codes[c/32*bits*stride+4*base:], stride, words, until-base)
		if x.Pack == layout.PackPlanes {
			for r := range until - base {
				for at := range words / bits {
					joinPlanes(x.scratch.codes[r*tileBytes+4*bits*at:][:4*bits], bits)
				}
			}
		}
		return
	}
	const width, plane = tileRows / 8 * 4, tileBytes / 4 * tileRows / 8 * 4
	stride, words := 4*int(groups(x.Rows, 8)), (until-base+7)/8
	if most := min(stride/4-base/8, tileRows/8); most%8 == 0 { // what no one asked for costs less than what no kernel takes
		words = most
	}
	turnNibbles(x.scratch.planes[:], width, plane, codes[c*stride+base/2:], stride, end-c, words)
	for k := range 8 {
		turnWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*plane:], width, (end-c+7)/8, words)
	}
}

// joinPlanes makes dense codes of 32 codes in planes.
func joinPlanes(b []byte, bits int) {
	var codes [32]byte
	src := b
	for offset := 0; offset < bits; {
		width := min(4, bits-offset)
		if width == 3 {
			width = 2
		}
		for i := range codes {
			at := i * width
			codes[i] |= src[at/8] >> (at % 8) & (1<<width - 1) << offset
		}
		src, offset = src[4*width:], offset+width
	}
	var word, n uint
	for _, q := range codes {
		if word, n = word|uint(q)<<n, n+uint(bits); n >= 8 {
			b[0] = byte(word)
			b, word, n = b[1:], word>>8, n-8
		}
	}
}

// row expands a row of a strip, whose codes begin at a bit of their first byte.
func (x *expansion) row(dst []float32, codes []byte, bit, row int, s strip) error {
	at := s.scales
	switch x.GroupRows {
	case 0:
	case 1:
		at += uint64(row) * x.scaleCols()
	default:
		at += uint64(row) / x.GroupRows * x.scaleCols()
	}
	if !x.Permuted {
		at += uint64(s.first)
	}
	scales, offsets := x.parts.Scales[at:], x.parts.Offsets
	if len(offsets) > 1 {
		offsets = offsets[at:]
	}
	if !x.each {
		if x.GroupRows == 0 && x.ScaleCols == 1 { // for all rows
			scales, offsets = scales[:1], offsets[:1]
		}
		x.run(dst, codes, bit, scales, offsets, s.within, x.group)
		return nil
	}
	x.run(dst, codes, bit, unit[:], noOffset[:], 0, len(dst))
	if !x.Permuted {
		x.rescaleEach(dst, scales, offsets)
		return nil
	}
	scales = scales[:x.ScaleCols]
	if i := rescale(dst, scales, offsets, x.parts.GroupOf[s.col:], x.Bias); i >= 0 {
		return x.noGroup(s.col + i)
	}
	return nil
}

// run expands codes from a bit of the first byte on. The first is element within of its group, with
// which scales and offsets begin, unless they have one for all groups.
func (x *expansion) run(dst []float32, codes []byte, bit int, scales, offsets []float32, within, group int) {
	k, bits := &active.grouped[x.code], x.code.Bits()
	if x.Bias {
		k = &active.grouped[x.code+biased]
	} else if x.code >= layout.CodeInt8By127 && &x.parts.Offsets[0] != &noOffset[0] {
		k = &generic.grouped[x.code]
	}
	// Most calls are for whole groups.
	if count := len(dst) / group; bit|within == 0 && count*group == len(dst) && len(dst) <= simd.MaxCall && group&(k.step-1) == 0 {
		k.call(dst, codes[:len(dst)/8*bits], atMost(scales, count), atMost(offsets, count), group, x.large)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst), group-within)
		switch {
		case k.pairs && group == 16 && within == 0 && bit == 0 && len(dst) >= 32:
			count := min(len(dst), simd.MaxCall) / 32 * 2
			n = count * 16
			k.call(dst[:n], codes[:n/8*bits], atMost(scales, count), atMost(offsets, count), group, x.large)
		case bit != 0 || n < k.step:
			n = x.few(dst[:n], codes, bit, scales[0], offsets[0])
		case within == 0 && n == group && group <= simd.MaxCall && group%k.step == 0:
			count := min(len(dst), simd.MaxCall) / group
			n = count * group
			k.call(dst[:n], codes[:n/8*bits], atMost(scales, count), atMost(offsets, count), group, x.large)
		default:
			n = simd.WholeSteps(min(n, simd.MaxCall), k.step)
			k.call(dst[:n], codes[:n/8*bits], scales[:1], offsets[:1], n, x.large)
		}
		at, done := bit+n*bits, (within+n)/group
		dst, codes, bit, within = dst[n:], codes[at/8:], at%8, (within+n)%group
		scales, offsets = after(scales, done), after(offsets, done)
	}
}

// call runs the variant for dst's size and place.
func (k *groupKernel) call(dst []float32, codes []byte, scales, offsets []float32, group int, large bool) {
	if large && k.stream != nil && unaligned(dst) == 0 {
		k.stream(dst, codes, scales, offsets, group)
		return
	}
	k.run(dst, codes, scales, offsets, group)
}

// atMost returns the first n values of s, or the one for all groups.
func atMost(s []float32, n int) []float32 { return s[:min(n, len(s))] }

// after returns s without its first n values, or the one for all groups.
func after(s []float32, n int) []float32 {
	if len(s) > 1 {
		return s[n:]
	}
	return s
}

// few expands codes of one group that no kernel takes, up to the next one that begins at a byte. If
// the first does, it expands all.
func (x *expansion) few(dst []float32, codes []byte, bit int, scale, offset float32) (n int) {
	bits, values, aligned := x.code.Bits(), codeValues[x.code], bit == 0
	for n < len(dst) && (aligned || n == 0 || bit != 0) {
		q := uint(codes[0]) >> bit
		if highFirst(x.code) {
			q = uint(codes[0]) >> (4 - bit) & 15
		}
		if bit+bits > 8 {
			q |= uint(codes[1]) << (8 - bit)
		}
		dst[n] = values[q&(1<<bits-1)]
		n, bit = n+1, bit+bits
		codes, bit = codes[bit/8:], bit%8
	}
	switch dst = dst[:n]; {
	case x.Bias:
		scaleAndAdd(dst, scale, offset)
	case x.code == layout.CodeInt8By127:
		scaleBy127(dst, scale, offset)
	default:
		subtractAndScale(dst, scale, offset)
	}
	return n
}
