package dequant

import (
	"math"
	"sync"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// expandParallel fills dst with the values of the elements from first on. It calls expand for ranges of the elements, on at most cores
// goroutines. It fails if expand does. It allocates memory for its function literal. To avoid that, Expand calls expand itself on one core.
func (x expansion) expandParallel(dst []float32, first uint64, cores int) error {
	grain := simd.ParallelGrain
	// Codes that lie by columns are transposed in tiles of tileRows rows, which goroutines should not share.
	if x.Pack == layout.PackGPTQ || x.Pack == layout.PackPlanes || x.Pack == layout.PackAWQ {
		grain = int(max(simd.ParallelGrain, min(tileRows*x.Cols, 1<<24))) // bounded, so that long rows are shared too
	}
	// Goroutines shall share the elements at multiples of the grain, counted from the beginning of first's row. InParallel counts from its
	// own 0. So its 0 is the last such multiple that is not beyond first, and it counts some elements before first too.
	countBeforeFirst := int(first % x.Cols % uint64(grain))
	return simd.InParallel(cores, countBeforeFirst+len(dst), grain, func(lo, hi int) error {
		own, from := x, max(lo, countBeforeFirst)-countBeforeFirst // a copy, which gets scratch memory of its own
		return own.expand(dst[from:hi-countBeforeFirst], first+uint64(from))
	})
}

// noOffset stands for the offsets of a tensor without any. unit is the scale that expands codes to unscaled values.
var noOffset, unit = [1]float32{0}, [1]float32{1}

// expand fills dst with the values of the elements from first on, which are among the elements of x, without other goroutines. If all
// groups have one size and follow each other, expandCodes takes dst at once. Otherwise expandRectangle takes the incomplete
// first row, then complete rows of one matrix at a time, then the incomplete last row. It fails with ErrLength if GroupOf names
// a group that does not exist.
func (x *expansion) expand(dst []float32, first uint64) error {
	if group, ok := x.equalGroups(); ok {
		offset, bit := x.codeAt(first)
		scales, offsets := x.scalesFromGroup(first/group - x.scalesFrom)
		x.expandCodes(dst, x.parts.Codes[offset-x.codesFrom:], bit, scales, offsets, int(first%group), int(group))
		return nil
	}
	if x.Pack != layout.PackRows { // expandRectangle unpacks codes into scratch memory
		x.scratch = scratches.Get().(*scratch)
		defer scratches.Put(x.scratch)
	}
	// Only the first and the last row may be incomplete. All complete rows of a matrix are one rectangle.
	for row, col := first/x.Cols, first%x.Cols; len(dst) > 0; col = 0 {
		rows, n := 1, int(min(x.Cols-col, uint64(len(dst))))
		if col == 0 && uint64(len(dst)) >= x.Cols {
			rows = int(min(uint64(len(dst))/x.Cols, x.Rows-row%x.Rows))
		}
		if err := x.expandRectangle(dst[:rows*n], row, rows, col, n); err != nil {
			return err
		}
		row, dst = row+uint64(rows), dst[rows*n:]
	}
	return nil
}

// equalGroups reports whether groups of one size follow each other through the whole tensor, so that rows do not matter. Their
// codes and scales then lie in the same order, without gaps. If so, it returns how many elements a group has: at most
// math.MaxInt32, since expandCodes takes an int.
func (g Grouped) equalGroups() (group uint64, ok bool) {
	isGapless := g.Pack == layout.PackRows && g.Cols*uint64(g.Code.Bits())%8 == 0 && g.RowBytes == g.minRowBytes()
	if !isGapless || g.Permuted || g.Cols == 1 {
		return 0, false
	}
	switch group = min(g.GroupCols, g.Cols); {
	case g.GroupRows >= g.Rows && group == g.Cols: // one group for each matrix
		return g.Rows * g.Cols, g.ScaleCols == 1 && g.Rows*g.Cols <= math.MaxInt32
	case g.GroupRows != 1 && g.Rows != 1: // rows share scales
		return 0, false
	}
	fillsRow := g.Cols%group == 0 && g.ScaleCols == g.Cols/group  // no group is smaller, no scale is padding
	return group, fillsRow && 1 < group && group <= math.MaxInt32 // groups of one element are scalesEachColumn
}

// An expansion is a call of Grouped.Expand: it makes values of one range of elements.
type expansion struct {
	Grouped               // with its defaults set
	parts                 Parts
	kernelCode            layout.Code // of the codes that expandCodes gets: 8 for codes unpacked to bytes
	codesFrom, scalesFrom uint64      // offset of parts.Codes, and number of the first of parts.Scales, in the whole tensor
	matrixScales          uint64      // scales of a matrix
	groupSize             int         // columns that share a scale, unless scalesEachColumn
	scalesEachColumn      bool        // each column has a scale of its own, or the scale of a group in a list: expandRow expands codes unscaled first
	bypassesCaches        bool        // kernels store past the caches
	scratch               *scratch
}

// firstScale returns the index in Parts.Scales of the first scale of a matrix, modulo 2⁶⁴: it may lie before the first of Parts.
// Matrices are numbered from 0.
func (x *expansion) firstScale(matrix uint64) uint64 { return matrix*x.matrixScales - x.scalesFrom }

// scalesFromGroup returns the scales and offsets from number at of Parts on. One offset for all elements stays.
func (x *expansion) scalesFromGroup(at uint64) (scales, offsets []float32) {
	return x.parts.Scales[at:], skipScales(x.parts.Offsets, int(at))
}

// A scratch has memory for codes that are unpacked or transposed, and for the scales of permuted columns.
type scratch struct {
	codes, planes   [tileRows * tileBytes]byte
	scales, offsets []float32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// expandRectangle fills dst with rows × n values of one matrix: n columns, from col on, of each row from row on. row counts
// the rows of all matrices. It fails with ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandRectangle(dst []float32, row uint64, rows int, col uint64, n int) error {
	matrix, top := row/x.Rows, int(row%x.Rows)
	switch x.Pack {
	case layout.PackGPTQ, layout.PackPlanes, layout.PackAWQ:
		return x.expandTiles(dst, matrix, top, rows, int(col), n)
	case layout.PackRows:
		offset, bit := x.codeAt(row*x.Cols + col)
		for r := range rows { // more than one only from column 0 on
			codes := x.parts.Codes[offset-x.codesFrom+uint64(r)*x.RowBytes:]
			if err := x.expandRow(dst[r*n:][:n], codes, bit, matrix, top+r, int(col)); err != nil {
				return err
			}
		}
		return nil
	}
	return x.expandUnpacked(dst, row, rows, col, n)
}

// expandUnpacked fills dst as expandRectangle does, for codes in words or slabs. It unpacks codes to scratch memory, and
// expands them from there, part by part. A part is several complete rows if rowsAtOnce allows them. Otherwise it is the
// rest of a row, or the codes of the row that the scratch memory holds, at most one for each byte. Codes of slabs are
// unpacked to a byte each: for them expandUnpacked sets x.kernelCode to 8. It fails with ErrLength if GroupOf names a group
// that does not exist.
func (x *expansion) expandUnpacked(dst []float32, row uint64, rows int, col uint64, n int) error {
	matrix, top := row/x.Rows, int(row%x.Rows)
	if x.codesLieInSlabs() {
		x.kernelCode = 8 // unpacked codes take a byte each
	}
	for done := 0; done < len(dst); {
		r, c := done/n, done%n
		from := col + uint64(c)
		out := dst[done:min(len(dst), done+n-c, done+len(x.scratch.codes))] // of row r: no more codes than scratch.codes has bytes
		if wholeRows := x.rowsAtOnce(top+r, rows-r); c == 0 && n == int(x.Cols) && wholeRows > 1 {
			out = dst[done:][:wholeRows*n]
		}
		codes := x.scratch.codes[:(len(out)*x.kernelCode.Bits()+7)/8]
		if x.Pack == layout.PackWords {
			x.joinWords(codes, row+uint64(r), from, len(out))
		} else {
			x.unpackSlabRow(codes, row+uint64(r), from)
		}
		if err := x.expandRow(out, codes, 0, matrix, top+r, int(from)); err != nil {
			return err
		}
		done += len(out)
	}
	return nil
}

// expandRow fills dst with the values of one row of a matrix, from column col on: or of several whole rows, if one scale serves all rows.
// row counts within the matrix. The code of that column begins at bit number bit of codes[0], and the others follow. It fails with
// ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandRow(dst []float32, codes []byte, bit int, matrix uint64, row, col int) error {
	group, indexInGroup := x.firstScale(matrix)+uint64(row)/x.GroupRows*x.ScaleCols, 0 // of the row's first column
	if col > 0 && !x.Permuted {                                                        // of column col
		group, indexInGroup = group+uint64(col/x.groupSize), col%x.groupSize
	}
	scales, offsets := x.scalesFromGroup(group)
	if !x.scalesEachColumn {
		if x.GroupRows >= x.Rows && x.ScaleCols == 1 { // one scale serves all rows
			scales, offsets = scales[:1], offsets[:1]
		}
		x.expandCodes(dst, codes, bit, scales, offsets, indexInGroup, x.groupSize)
		return nil
	}
	// Codes are expanded unscaled first. Then each is scaled by the scale of its own column.
	x.expandCodes(dst, codes, bit, unit[:], noOffset[:], 0, len(dst))
	if !x.Permuted {
		x.rescaleEach(dst, scales, offsets)
		return nil
	}
	scales = scales[:x.ScaleCols]
	if i := rescale(dst, scales, offsets, x.parts.GroupOf[col:], x.Bias); i >= 0 {
		return x.errNoGroup(col + i)
	}
	return nil
}

// expandCodes fills dst with the values of consecutive codes. The first code begins at bit number bit of codes[0]. Every
// groupSize elements share a scale and an offset. The first code is element indexInGroup of its group, counted from 0.
// scales[0] and offsets[0] belong to that group. A slice of only one scale or offset has the one of all groups.
func (x *expansion) expandCodes(dst []float32, codes []byte, bit int, scales, offsets []float32, indexInGroup, groupSize int) {
	k, bits := &active.grouped[x.kernelCode], x.kernelCode.Bits()
	if x.Bias {
		k = &active.grouped[x.kernelCode+biased]
	} else if x.kernelCode >= layout.CodeInt8By127 && &x.parts.Offsets[0] != &noOffset[0] { // such codes have only portable kernels with offsets
		k = &generic.grouped[x.kernelCode]
	}
	// This is the fast path: whole groups that one call of the kernel takes.
	count := len(dst) / groupSize // of groups; eight codes take as many bytes as a code has bits
	isWhole := bit|indexInGroup == 0 && count*groupSize == len(dst)
	if isWhole && len(dst) <= simd.MaxCall && groupSize&(k.step-1) == 0 { // a multiple of step, which is a power of two
		k.call(dst, codes[:len(dst)/8*bits], firstScales(scales, count), firstScales(offsets, count), groupSize, x.bypassesCaches)
		return
	}
	for len(dst) > 0 { // each turn expands n codes
		n := min(len(dst), groupSize-indexInGroup)
		isAligned := bit == 0 && indexInGroup == 0
		switch {
		case k.takesPairs && groupSize == 16 && isAligned && len(dst) >= 32: // pairs of groups of 16
			count = min(len(dst), simd.MaxCall) / 32 * 2
			n = count * 16
			k.call(dst[:n], codes[:n/8*bits], firstScales(scales, count), firstScales(offsets, count), groupSize, x.bypassesCaches)
		case bit != 0 || n < k.step: // codes of one group that no kernel takes
			n = x.expandPortably(dst[:n], codes, bit, scales[0], offsets[0])
		case isAligned && n == groupSize && groupSize <= simd.MaxCall && groupSize%k.step == 0: // whole groups
			count = min(len(dst), simd.MaxCall) / groupSize
			n = count * groupSize
			k.call(dst[:n], codes[:n/8*bits], firstScales(scales, count), firstScales(offsets, count), groupSize, x.bypassesCaches)
		default: // a part of one group
			n = simd.WholeSteps(min(n, simd.MaxCall), k.step)
			k.call(dst[:n], codes[:n/8*bits], scales[:1], offsets[:1], n, x.bypassesCaches)
		}
		at, done := bit+n*bits, (indexInGroup+n)/groupSize // where the next code begins, and how many groups are complete
		dst, codes, bit, indexInGroup = dst[n:], codes[at/8:], at%8, (indexInGroup+n)%groupSize
		scales, offsets = skipScales(scales, done), skipScales(offsets, done)
	}
}

// call runs the kernel k on dst and codes, which are whole groups of group elements each. It runs k.stream, which stores
// past the caches, under three conditions: bypassesCaches is set, k has a stream, and dst is aligned to 64 bytes. Otherwise
// it runs k.run.
func (k *groupKernel) call(dst []float32, codes []byte, scales, offsets []float32, group int, bypassesCaches bool) {
	if bypassesCaches && k.stream != nil && floatsToAligned(dst) == 0 {
		k.stream(dst, codes, scales, offsets, group)
		return
	}
	k.run(dst, codes, scales, offsets, group)
}

// firstScales returns the first n values of s, or s itself if it has fewer: it then has one value for all groups.
func firstScales(s []float32, n int) []float32 { return s[:min(n, len(s))] }

// skipScales returns s without its first n values, or s itself if it has one value for all groups.
func skipScales(s []float32, n int) []float32 {
	if len(s) > 1 {
		return s[n:]
	}
	return s
}

// expandPortably writes values of consecutive codes of one group to dst, and returns how many. The first code begins at bit
// number bit of codes[0]. If bit is 0, it fills dst. Otherwise it stops at the end of dst, or before the next code that begins
// at the start of a byte. A kernel can go on there. offset is a bias if x.Bias is set, and else a zero point. dst is not
// empty.
func (x *expansion) expandPortably(dst []float32, codes []byte, bit int, scale, offset float32) (n int) {
	bits, values, fillsDst := x.kernelCode.Bits(), codeValues[x.kernelCode], bit == 0
	for n < len(dst) && (fillsDst || n == 0 || bit != 0) {
		q := uint(codes[0]) >> bit
		if highFirst(x.kernelCode) {
			q = (uint(codes[0]) >> (4 - bit)) & 15 // bit is 0 or 4
		}
		if bit+bits > 8 { // the code ends in the next byte
			q |= uint(codes[1]) << (8 - bit)
		}
		dst[n] = values[q&(1<<bits-1)]
		n, bit = n+1, bit+bits
		codes, bit = codes[bit/8:], bit%8
	}
	scalerOf(x.kernelCode, x.Bias)(dst[:n], scale, offset)
	return n
}
