package dequant

import (
	"math"
	"sync"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// expandParallel does what expand does, on at most cores goroutines: they call expand for ranges of the elements. It fails if a call of
// expand fails. Its function literal is allocated. To avoid that, Expand calls expand itself if one core is enough.
func (x expansion) expandParallel(dst []float32, first uint64, cores int) error {
	grain := simd.ParallelGrain
	// Codes that lie by columns are transposed in tiles of tileRows rows, which goroutines should not share.
	if x.Pack == layout.PackGPTQ || x.Pack == layout.PackPlanes || x.Pack == layout.PackAWQ {
		grain = int(max(simd.ParallelGrain, min(tileRows*x.Cols, 1<<24))) // bounded, so that long rows are shared too
	}
	// Goroutines share the elements at multiples of grain, counted from the beginning of the row that first is in. InParallel gets a range
	// that begins at such a multiple: the elements to expand, and countBeforeFirst elements before them, fewer than grain.
	countBeforeFirst := int(first % x.Cols % uint64(grain))
	return simd.InParallel(cores, countBeforeFirst+len(dst), grain, func(lo, hi int) error {
		own, from := x, max(lo, countBeforeFirst)-countBeforeFirst // a copy, which gets scratch memory of its own
		return own.expand(dst[from:hi-countBeforeFirst], first+uint64(from))
	})
}

// noOffset are the offsets of a tensor that stores none: one 0 for all groups. unit are scales that leave values unscaled: one 1 for all
// groups.
var noOffset, unit = [1]float32{0}, [1]float32{1}

// expand fills dst with the values of elements [first, first+len(dst)), on the caller's goroutine. x.parts must hold what these
// elements need. If all groups have one size and follow each other, one call of expandCodes fills dst. Otherwise
// expandRectangle takes the incomplete first row, then complete rows of one matrix at a time, then the incomplete last row.
// expand fails with ErrLength if GroupOf names a group that does not exist.
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
	fillsRow := g.Cols%group == 0 && g.ScaleCols == g.Cols/group  // every group of a row is complete, and no scale is padding
	return group, fillsRow && 1 < group && group <= math.MaxInt32 // expandRow takes groups of one element
}

// An expansion is a call of Grouped.Expand: it makes values of one range of elements.
type expansion struct {
	Grouped               // with its defaults set
	parts                 Parts
	kernelCode            layout.Code // type of the codes that expandCodes gets: 8 if they were unpacked to a byte each
	codesFrom, scalesFrom uint64      // where parts begin in the whole tensor: offset of parts.Codes[0] in bytes, number of parts.Scales[0]
	matrixScales          uint64      // number of scales that a matrix has
	groupSize             int         // columns that share a scale, unless scalesEachColumn
	scalesEachColumn      bool        // groups have one column each, or GroupOf lists them (Permuted): expandRow expands codes unscaled first
	bypassesCaches        bool        // kernels store past the caches
	scratch               *scratch
}

// firstScale returns the index in Parts.Scales of the first scale of a matrix. Parts may begin behind that scale. The index
// is then negative, modulo 2⁶⁴, and becomes right when callers add the number of a later scale. Matrices are numbered from 0.
func (x *expansion) firstScale(matrix uint64) uint64 { return matrix*x.matrixScales - x.scalesFrom }

// scalesFromGroup returns the scales and offsets of Parts from index at on. If Parts has one offset for all elements, it returns that
// offset.
func (x *expansion) scalesFromGroup(at uint64) (scales, offsets []float32) {
	return x.parts.Scales[at:], skipScales(x.parts.Offsets, int(at))
}

// A scratch has memory for codes that are unpacked or transposed, and for the scales of permuted columns.
type scratch struct {
	codes, planes   [tileRows * tileBytes]byte
	scales, offsets []float32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// expandRectangle fills dst, row by row, with values of one matrix: n columns of each of the given number of rows. The first row
// has number row, counted through all matrices, and the first column number col. If there are several rows, they are complete. It fails with
// ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandRectangle(dst []float32, row uint64, rows int, col uint64, n int) error {
	matrix, top := row/x.Rows, int(row%x.Rows)
	switch x.Pack {
	case layout.PackGPTQ, layout.PackPlanes, layout.PackAWQ:
		return x.expandTiles(dst, matrix, top, rows, int(col), n)
	case layout.PackRows:
		offset, bit := x.codeAt(row*x.Cols + col)
		for r := range rows { // several rows are complete: the first code of each begins at the same bit, 0
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
// expands them from there, part by part. A part is several complete rows if rowsAtOnce allows them. Otherwise a part is the
// rest of a row, but no more codes than the scratch memory has bytes. Codes of slabs are unpacked to a byte each: for them
// expandUnpacked sets x.kernelCode to 8. It fails with ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandUnpacked(dst []float32, row uint64, rows int, col uint64, n int) error {
	matrix, top := row/x.Rows, int(row%x.Rows)
	if x.codesLieInSlabs() {
		x.kernelCode = 8 // unpacked codes take a byte each
	}
	for done := 0; done < len(dst); {
		r, c := done/n, done%n
		from := col + uint64(c)
		out := dst[done:min(len(dst), done+n-c, done+len(x.scratch.codes))] // the rest of row r, or as many elements as scratch.codes has bytes
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

// expandRow fills dst with the values of a row of a matrix, beginning with the element in column col. row is the row's number within
// the matrix. If rowsAtOnce allows it, dst may have the elements of several whole rows. codes has their codes without gaps, and
// bit counts the bits of codes[0] before the first code. expandRow fails with ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandRow(dst []float32, codes []byte, bit int, matrix uint64, row, col int) error {
	group := x.firstScale(matrix) + uint64(row)/x.GroupRows*x.ScaleCols // index in Parts.Scales of the row's first scale
	indexInGroup := 0                                                   // of column col
	if col > 0 && !x.Permuted {                                         // group becomes the index of the scale of column col
		group, indexInGroup = group+uint64(col/x.groupSize), col%x.groupSize
	}
	scales, offsets := x.scalesFromGroup(group)
	if !x.scalesEachColumn { // every groupSize columns share a scale, and expandCodes scales them
		if x.GroupRows >= x.Rows && x.ScaleCols == 1 { // one scale serves the whole matrix, so also all rows of dst
			scales, offsets = scales[:1], offsets[:1]
		}
		x.expandCodes(dst, codes, bit, scales, offsets, indexInGroup, x.groupSize)
		return nil
	}
	// Codes are expanded unscaled first. Then each value is scaled by the scale of its column.
	x.expandCodes(dst, codes, bit, unit[:], noOffset[:], 0, len(dst))
	if !x.Permuted { // groups have one column each: scales[0] belongs to column col, scales[1] to the next
		x.rescaleEach(dst, scales, offsets)
		return nil
	}
	scales = scales[:x.ScaleCols] // all scales of the row: GroupOf says which of them a column has
	if i := rescale(dst, scales, offsets, x.parts.GroupOf[col:], x.Bias); i >= 0 {
		return x.errNoGroup(col + i)
	}
	return nil
}

// expandCodes fills dst with the values of consecutive codes. The first code begins at bit number bit of codes[0]. Every
// groupSize elements share a scale and an offset. The first code is element indexInGroup of its group, counted from 0.
// scales[0] and offsets[0] belong to that group. A single scale serves all groups, and so does a single offset.
func (x *expansion) expandCodes(dst []float32, codes []byte, bit int, scales, offsets []float32, indexInGroup, groupSize int) {
	k, bits := &active.grouped[x.kernelCode], x.kernelCode.Bits()
	if x.Bias {
		k = &active.grouped[x.kernelCode+biased]
	} else if x.kernelCode >= layout.CodeInt8By127 && &x.parts.Offsets[0] != &noOffset[0] { // such codes have only portable kernels with offsets
		k = &generic.grouped[x.kernelCode]
	}
	// This is the fast path: whole groups that one call of the kernel takes.
	count := len(dst) / groupSize // of complete groups
	isWhole := bit|indexInGroup == 0 && count*groupSize == len(dst)
	if isWhole && len(dst) <= simd.MaxCall && groupSize&(k.step-1) == 0 { // step is a power of two: groupSize is a multiple of it
		// Eight codes take as many bytes as a code has bits.
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

// firstScales returns the first n values of s. If s has fewer values, s has one value for all groups, and firstScales returns s.
func firstScales(s []float32, n int) []float32 { return s[:min(n, len(s))] }

// skipScales returns s without its first n values. If s has one value for all groups, it returns s.
func skipScales(s []float32, n int) []float32 {
	if len(s) > 1 {
		return s[n:]
	}
	return s
}

// expandPortably writes values of consecutive codes of one group to dst, and returns the number of values. The first code begins
// at bit number bit of codes[0]. If bit is 0, expandPortably fills dst. Otherwise it stops before the first code that begins at
// the start of a byte, or at the end of dst. A kernel can take the codes from such a byte on. offset is a bias if x.Bias is
// set, and else a zero point. dst is not empty.
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
