package scheme

import (
	"cmp"
	"encoding/binary"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// scaleCols returns how many scales are stored for each row of groups, padding included.
func (f *Form) scaleCols() uint64 {
	_, n := dequant.Grouped(f.Grouped).Scales(0, f.Cols)
	return cmp.Or(f.ScaleCols, n)
}

// scalesPerMatrix returns the number of scales of one matrix of the weight.
func (f *Form) scalesPerMatrix() uint64 {
	_, n := dequant.Grouped(f.Grouped).Scales(0, f.Rows*f.Cols)
	return n
}

// readScales fills dst.Scales with stored scales, from scale from on, and makes dst.Offsets empty. It fails if reading does.
func readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	dst.Offsets = dst.Offsets[:0]
	return p.Floats(Scale, f.scaleType, dst.Scales, from)
}

// readScalesAndOffsets fills dst.Scales with stored scales, from scale from on, and dst.Offsets with as many values of the part
// that has the role offsets: zero points or biases. It fails if reading does.
func readScalesAndOffsets(p Parts, f *Form, dst *Scales, from uint64, offsets Role) error {
	if err := readScales(p, f, dst, from); err != nil {
		return err
	}
	dst.Offsets = dst.Offsets[:len(dst.Scales)]
	return p.Floats(offsets, layout.Invalid, dst.Offsets, from)
}

// transpose writes stored, a matrix of groups × rows values, to dst as rows × groups. If dst is shorter, the end of the last row
// is left out: it belongs to groups without columns.
func transpose(dst, stored []float32, groups, rows uint64) {
	if uint64(len(dst)) < uint64(len(stored)) {
		all := make([]float32, len(stored))
		dequant.Transpose(all, stored, int(groups), int(rows))
		copy(dst, all)
		return
	}
	dequant.Transpose(dst, stored, int(groups), int(rows))
}

// readTransposedScales fills dst with all scales of a matrix, row by row. They are stored column by column. It fails if reading does.
func readTransposedScales(p Parts, f *Form, dst []float32) error {
	stored := make([]float32, f.Rows*f.scaleCols())
	if err := p.Floats(Scale, f.scaleType, stored, 0); err != nil {
		return err
	}
	transpose(dst, stored, f.scaleCols(), f.Rows)
	return nil
}

// readPackedIntegers fills dst with the integers of the part that has role r. They are packed in as many blocks of equal size as
// blocks says. g describes each block as a matrix of codes. It fails if reading does, or if the part has too few bytes.
func readPackedIntegers(p Parts, r Role, g dequant.Grouped, blocks uint64, dst []float32) error {
	words, err := p.Bytes(r)
	if err != nil || len(dst) == 0 {
		return err
	}
	n, size, one := uint64(len(dst))/blocks, uint64(len(words))/blocks, []float32{1}
	_, want := g.Codes(0, n)
	if want > size {
		return p.Wrap(r, invalidf("%d bytes of zero points, not %d", size, want))
	}
	for i := range blocks {
		if err := g.Expand(dst[i*n:][:n], dequant.Parts{Codes: words[i*size:][:want], Scales: one}, 0, dequant.AllCores); err != nil {
			return p.Wrap(r, err)
		}
	}
	return nil
}

// columnGroups says how a group index (act-order) is stored. The index has a group for each column, so that the
// columns of a group need not be consecutive.
type columnGroups struct {
	entryBytes      int  // bytes of a number; 0 if groups are consecutive
	mustBeSet       bool // an index of nothing but −1 is an error; else it was never set, and groups are consecutive
	ignoresAllZeros bool // an index of nothing but zeros means consecutive groups
}

// read sets dst.GroupOf to the stored group index. It leaves it nil if there is no index, or if the index says that groups are
// consecutive. For an index of nothing but zeros it sets dst.ZeroIndex to how it took that. It fails if reading does, or if a
// column has a group that does not exist.
func (g columnGroups) read(p Parts, f *Form, dst *Scales) error {
	if g.entryBytes == 0 || f.Cols == 0 || f.Rows == 0 {
		return nil
	}
	b, err := p.Bytes(GroupIndex)
	if err != nil {
		return err
	}
	groupOf := func(col int) int64 {
		if g.entryBytes == 8 {
			return int64(binary.LittleEndian.Uint64(b[col*g.entryBytes:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(b[col*g.entryBytes:])))
	}
	_, groups := dequant.Grouped(f.Grouped).Scales(0, f.Cols)
	index := make([]int32, f.Cols)
	isUnset, isZero, inOrder := !g.mustBeSet, groups > 1, true
	for col := range index {
		v := groupOf(col)
		isUnset, isZero = isUnset && v == -1, isZero && v == 0
		inOrder = inOrder && (f.GroupCols == 0 && v == 0 || f.GroupCols != 0 && uint64(v) == uint64(col)/f.GroupCols)
		index[col] = int32(v)
	}
	if isUnset {
		return nil
	}
	for col := range index {
		if v := groupOf(col); v < 0 || uint64(v) >= groups {
			return p.Wrap(GroupIndex, invalidf("column %d is in group %d of %d", col, v, groups))
		}
	}
	if isZero {
		dst.ZeroIndex = "as it is"
		if g.ignoresAllZeros {
			dst.ZeroIndex = "for consecutive groups, without desc_act"
		}
	}
	if !inOrder && !(isZero && g.ignoresAllZeros) {
		dst.GroupOf = index
	}
	return nil
}
