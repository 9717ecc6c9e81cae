package dequant

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// Grouped expands the tensor that a [layout.Grouped] describes. Difference, product and sum are each rounded to
// float32.
type Grouped layout.Grouped

// Parts have the codes, scales and offsets that are stored for a range of elements of a Grouped tensor.
type Parts struct {
	// Codes are the bytes that Grouped.Codes names.
	Codes []byte
	// Scales are the scales that Grouped.Scales names, row by row of groups.
	Scales []float32
	// Offsets are zero points or biases in the order of Scales, or one for all elements. No offsets mean 0.
	Offsets []float32
	// GroupOf has an entry for each column of a Permuted tensor: the number of the column's group in a row of groups.
	GroupOf []int32
}

// packedCodes says which codes each packing takes: bit n of an entry is set if the packing takes code n. PackRows takes all codes, and has
// no entry. Codes 1 to 8 are unsigned integers of 1 to 8 bits. Some entries have bit 0 set too, but Check refuses code 0.
var packedCodes = [...]uint16{
	layout.PackWords:    1<<9 - 1,
	layout.PackGPTQ:     1<<9 - 1,
	layout.PackPlanes:   1<<3 | 1<<5 | 1<<6 | 1<<7, // sizes that do not divide a word of 32 bits
	layout.PackAWQ:      1 << 4,
	layout.PackSlabs:    1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<8,
	layout.PackLowSlabs: 1<<1 | 1<<2 | 1<<4 | 1<<8,
}

// Check returns an error unless a tensor can have the layout that g describes. The error wraps errors.ErrUnsupported if the
// code is unknown, or does not go with Pack or Bias. It also wraps errors.ErrUnsupported if int8/127 has groups of columns or
// is Permuted. It wraps ErrLength if sizes contradict each other, or if the columns of PackPlanes are not a multiple of 32. It
// also wraps ErrLength if there are more than 2⁵⁶ elements, bytes or scales.
func (g Grouped) Check() error {
	isKnown := int(g.Code) < numCodes && codeValues[g.Code] != nil
	hasOneGroup := g.GroupCols == 0 && !g.Permuted
	isUnsigned := g.Code <= 8 // codes 1 to 8 are unsigned integers of that many bits; no others go with biases
	isPacked := g.Pack == layout.PackRows || int(g.Pack) < len(packedCodes) && packedCodes[g.Pack]>>g.Code&1 == 1
	if !isKnown || !isPacked || g.Bias && !isUnsigned || g.Code == layout.CodeInt8By127 && !hasOneGroup {
		return fmt.Errorf("dequant: codes %v in packing %v, bias %v: %w", g.Code, g.Pack, g.Bias, errors.ErrUnsupported)
	}
	const limit = 1 << 56 // more than any memory holds; that many bytes have less than 2⁶⁴ bits
	if hi, n := bits.Mul64(g.Rows, g.Cols); hi != 0 || n > limit || max(g.Rows, g.Cols) > min(limit, math.MaxInt) {
		return fmt.Errorf("dequant: a matrix of %d × %d elements: %w", g.Rows, g.Cols, ErrLength)
	}
	if g.Pack == layout.PackPlanes && g.Cols%32 != 0 {
		return fmt.Errorf("dequant: %d columns in planes of 32: %w", g.Cols, ErrLength)
	}
	if g.RowBytes != 0 {
		hi, n := bits.Mul64(g.Rows, g.RowBytes)
		if !g.codesLieInRows() || g.RowBytes < g.minRowBytes() || hi != 0 || n > limit {
			return fmt.Errorf("dequant: %d bytes for a row of %d codes of %d bits: %w", g.RowBytes, g.Cols, g.Code.Bits(), ErrLength)
		}
	}
	if g.ScaleCols != 0 {
		hi, n := bits.Mul64(g.groupRows(), g.ScaleCols)
		if g.ScaleCols < groups(g.Cols, g.GroupCols) || hi != 0 || n > limit {
			return fmt.Errorf("dequant: %d scales for a row of %d columns in groups of %d: %w", g.ScaleCols, g.Cols, g.GroupCols, ErrLength)
		}
	}
	return nil
}

// setDefaults replaces the sizes of g that are zero by what zero stands for: groups of all rows or columns of a matrix, and rows of
// codes and of scales without padding. Methods that compute places in a tensor call setDefaults first, since they divide by the sizes.
// g must have elements: otherwise sizes would stay 0.
func (g *Grouped) setDefaults() {
	if g.GroupRows == 0 {
		g.GroupRows = g.Rows
	}
	if g.GroupCols == 0 {
		g.GroupCols = g.Cols
	}
	if g.ScaleCols == 0 {
		g.ScaleCols = groups(g.Cols, g.GroupCols)
	}
	if g.RowBytes == 0 && g.codesLieInRows() {
		g.RowBytes = g.minRowBytes()
	}
}

// groups returns the number of groups that n elements make. A group has size elements, but the last group may have fewer. A
// size of 0 means one group of all elements. groups returns 0 if n is 0.
func groups(n, size uint64) uint64 {
	switch {
	case n == 0:
		return 0
	case size == 0 || size >= n:
		return 1
	}
	return (n-1)/size + 1
}

// codesLieInRows reports whether the codes of a row lie together, row after row.
func (g Grouped) codesLieInRows() bool {
	return g.Pack == layout.PackRows || g.Pack == layout.PackWords
}

// Dense reports whether the codes of elements [first, first+n) lie together, without codes of other elements between them. If
// the codes do not, Codes returns the range of whole matrices. Dense returns true if there are no elements. Check must have
// returned nil for g.
func (g Grouped) Dense(first, n uint64) bool {
	switch {
	case n == 0 || g.Rows == 0 || g.Cols == 0 || g.codesLieInRows():
		return true
	case !g.codesLieInSlabs():
		return false
	}
	firstRow, lastRow := first/g.Cols, (first+n-1)/g.Cols // both must lie in one slab of one matrix
	return firstRow/g.Rows == lastRow/g.Rows && firstRow%g.Rows/g.slabRows() == lastRow%g.Rows/g.slabRows()
}

// minRowBytes returns the bytes that the codes of one row take, without padding.
func (g Grouped) minRowBytes() uint64 {
	if g.Pack == layout.PackWords {
		return 4 * groups(g.Cols, g.perWord())
	}
	return (g.Cols*uint64(g.Code.Bits()) + 7) / 8
}

// groupRows returns the number of rows of groups in a matrix.
func (g Grouped) groupRows() uint64 { return groups(g.Rows, g.GroupRows) }

// matrixBytes returns how many bytes the codes of one matrix take. It serves only packings for which codesLieInRows is false. A slab
// is a part of the rows: each byte or word has a code of every slab.
func (g Grouped) matrixBytes() uint64 {
	switch g.Pack {
	case layout.PackGPTQ, layout.PackPlanes:
		return 4 * groups(g.Cols*uint64(g.Code.Bits()), 32) * g.Rows // whole words for each row
	case layout.PackAWQ:
		return 4 * groups(g.Rows, 8) * g.Cols // a word for eight rows of a column
	}
	return g.slabRows() * g.Cols * g.slabUnit()
}

// Codes returns where the codes of elements [first, first+n) are stored: their offset in the tensor's codes, and their size, both in bytes.
// If codes of other elements lie between them, Codes returns the range of all matrices to which elements of [first, first+n) belong. It
// returns 0 and 0 for no elements. Check must have returned nil for g.
func (g Grouped) Codes(first, n uint64) (off, size uint64) {
	if n == 0 || g.Rows == 0 || g.Cols == 0 {
		return 0, 0
	}
	g.setDefaults()
	last := first + n - 1
	if !g.codesLieInRows() {
		if g.Dense(first, n) { // in one slab: a range of rows whose codes lie together
			return g.slabOffset(first/g.Cols, first%g.Cols), n * g.slabUnit()
		}
		elements, bytes := g.Rows*g.Cols, g.matrixBytes() // of a matrix
		off = first / elements * bytes
		return off, (last/elements+1)*bytes - off
	}
	off, _ = g.codeAt(first)
	end, bit := g.codeAt(last)
	if g.Pack == layout.PackWords {
		return off, end + 4 - off
	}
	return off, end + uint64(bit+g.Code.Bits()+7)/8 - off
}

// codeAt returns where the code of element i begins. offset is the offset, in the tensor's codes, of the byte in which the code
// begins. In PackWords it is the offset of a word of four bytes. bit is the number of the code's first bit in that byte or
// word. Codes must lie row after row.
func (g Grouped) codeAt(i uint64) (offset uint64, bit int) {
	row, col, b := i/g.Cols, i%g.Cols, uint64(g.Code.Bits())
	if g.Pack == layout.PackWords {
		return row*g.RowBytes + 4*(col/g.perWord()), int(col % g.perWord() * b)
	}
	return row*g.RowBytes + col*b/8, int(col * b % 8)
}

// Scales returns which scales elements [first, first+n) use: size scales, from number off on. Scales are numbered through all
// matrices, row by row. Elements of several rows, and of Permuted columns, use whole rows of scales. It returns 0 and 0 for no
// elements. Check must have returned nil for g.
func (g Grouped) Scales(first, n uint64) (off, size uint64) {
	if n == 0 || g.Rows == 0 || g.Cols == 0 {
		return 0, 0
	}
	g.setDefaults()
	last := first + n - 1
	firstRow, lastRow := first/g.Cols, last/g.Cols
	from, to := uint64(0), (g.Cols-1)/g.GroupCols // the first and the last group of a row
	switch {
	case g.Permuted:
		to = g.ScaleCols - 1
	case firstRow == lastRow:
		from, to = first%g.Cols/g.GroupCols, last%g.Cols/g.GroupCols
	}
	off = g.groupRow(firstRow)*g.ScaleCols + from
	return off, g.groupRow(lastRow)*g.ScaleCols + to + 1 - off
}

// groupRow returns which row of groups a row of elements belongs to. Both are counted through all matrices.
func (g Grouped) groupRow(row uint64) uint64 {
	return row/g.Rows*g.groupRows() + row%g.Rows/g.GroupRows
}

// Expand writes the values of elements [first, first+len(dst)) to dst, on at most cores goroutines. It fails if Check does. It
// fails with ErrLength if a slice of p has a wrong length, or if GroupOf names a group that does not exist. p must have exactly
// the bytes and scales that Codes and Scales name. It may have no offsets, one, or one for each scale. Offsets of int8/127 are
// errors.ErrUnsupported. A panic in a goroutine reappears in the caller.
func (g Grouped) Expand(dst []float32, p Parts, first uint64, cores int) error {
	if err := g.Check(); err != nil || len(dst) == 0 {
		return err
	}
	if err := g.checkParts(p, first, uint64(len(dst))); err != nil {
		return err
	}
	if len(p.Offsets) == 0 {
		p.Offsets = noOffset[:]
	}
	g.setDefaults()
	x := expansion{
		Grouped: g, parts: p, kernelCode: g.Code,
		matrixScales:     g.groupRows() * g.ScaleCols,
		groupSize:        int(min(g.GroupCols, g.Cols)),
		scalesEachColumn: g.Permuted || g.GroupCols == 1 && g.Cols > 1,
		bypassesCaches:   isLarge(len(dst), len(p.Codes)),
	}
	x.codesFrom, _ = g.Codes(first, uint64(len(dst)))
	x.scalesFrom, _ = g.Scales(first, uint64(len(dst)))
	if cores == 1 || len(dst) < simd.ParallelMin {
		return x.expand(dst, first)
	}
	return x.expandParallel(dst, first, cores)
}

// checkParts returns an error unless p has exactly what elements [first, first+n) need. The error wraps ErrLength if a slice
// of p has another length, if a matrix is empty, or if first+n exceeds 2⁵⁶. It wraps errors.ErrUnsupported for offsets of
// int8/127, which has none. checkParts does not look at the values of GroupOf.
func (g Grouped) checkParts(p Parts, first, n uint64) error {
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
	switch offsets := len(p.Offsets); {
	case offsets > 0 && g.Code == layout.CodeInt8By127:
		return fmt.Errorf("dequant: offsets of bitsandbytes' int8, which has none: %w", errors.ErrUnsupported)
	case offsets > 1 && offsets != len(p.Scales):
		return fmt.Errorf("dequant: %d offsets with %d scales: %w", offsets, len(p.Scales), ErrLength)
	}
	return nil
}
