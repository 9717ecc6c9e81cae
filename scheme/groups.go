package scheme

import (
	"cmp"
	"encoding/binary"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// scaleCols returns the number of scales from one row of groups to the next.
func (f *Form) scaleCols() uint64 {
	_, n := dequant.Grouped(f.Grouped).Scales(0, f.Cols)
	return cmp.Or(f.ScaleCols, n)
}

// perMatrix returns the number of scales of one matrix.
func (f *Form) perMatrix() uint64 {
	_, n := dequant.Grouped(f.Grouped).Scales(0, f.Rows*f.Cols)
	return n
}

// direct reads the scales into dst.Scales from the one numbered from on, as they are stored. It reads as many
// offsets from the part role. If role is Codes, there are none.
func direct(p Parts, f *Form, dst *Scales, from uint64, role Role) error {
	dst.Offsets = dst.Offsets[:0]
	if role != Codes {
		dst.Offsets = dst.Offsets[:len(dst.Scales)]
		if err := p.Floats(role, layout.Invalid, dst.Offsets, from); err != nil {
			return err
		}
	}
	return p.Floats(Scale, f.scaleType, dst.Scales, from)
}

// transpose turns stored, groups of rows, into rows of groups. dst may be shorter: it then lacks the end of the last
// row, groups without columns.
func transpose(dst, stored []float32, groups, rows uint64) {
	if uint64(len(dst)) < uint64(len(stored)) {
		all := make([]float32, len(stored))
		dequant.Transpose(all, stored, int(groups), int(rows))
		copy(dst, all)
		return
	}
	dequant.Transpose(dst, stored, int(groups), int(rows))
}

// transposedFloats reads all scales, stored group by group with all rows of each, to dst, row by row.
func transposedFloats(p Parts, f *Form, dst []float32) error {
	stored := make([]float32, f.Rows*f.scaleCols())
	if err := p.Floats(Scale, f.scaleType, stored, 0); err != nil {
		return err
	}
	transpose(dst, stored, f.scaleCols(), f.Rows)
	return nil
}

// packedFloats fills dst with integers that part r has in words: blocks of the same size, each packed as g says. It
// fails if the part has too few bytes.
func packedFloats(p Parts, r Role, g dequant.Grouped, blocks uint64, dst []float32) error {
	words, err := p.Bytes(r)
	if err != nil || len(dst) == 0 {
		return err
	}
	n, size, one := uint64(len(dst))/blocks, uint64(len(words))/blocks, []float32{1}
	_, want := g.Codes(0, n)
	if want > size {
		return p.Wrap(r, misfit("%d bytes of zero points, not %d", size, want))
	}
	for i := range blocks {
		if err := g.Expand(dst[i*n:][:n], dequant.Parts{Codes: words[i*size:][:want], Scales: one}, 0, dequant.AllCores); err != nil {
			return p.Wrap(r, err)
		}
	}
	return nil
}

// columnGroups says how the group of each column is stored, if groups are not consecutive.
type columnGroups struct {
	size         int  // bytes of a number; 0 if groups are consecutive
	mayBeUnset   bool // an index of nothing but −1 was never set: groups are consecutive
	ignoresZeros bool // an index of nothing but zeros means consecutive groups
}

// read sets dst.GroupOf to the group of each column, and leaves it if groups are consecutive. It fails if a group
// does not exist. dst.ZeroIndex says how an index of zeros was taken.
func (g columnGroups) read(p Parts, f *Form, dst *Scales) error {
	if g.size == 0 || f.Cols == 0 || f.Rows == 0 {
		return nil
	}
	b, err := p.Bytes(GroupIndex)
	if err != nil {
		return err
	}
	groupOf := func(col int) int64 {
		if g.size == 8 {
			return int64(binary.LittleEndian.Uint64(b[col*g.size:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(b[col*g.size:])))
	}
	_, groups := dequant.Grouped(f.Grouped).Scales(0, f.Cols)
	index := make([]int32, f.Cols)
	isUnset, isZero, inOrder := g.mayBeUnset, groups > 1, true
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
			return p.Wrap(GroupIndex, misfit("column %d is in group %d of %d", col, v, groups))
		}
	}
	if isZero {
		dst.ZeroIndex = "as it is"
		if g.ignoresZeros {
			dst.ZeroIndex = "for consecutive groups, without desc_act"
		}
	}
	if !inOrder && !(isZero && g.ignoresZeros) {
		dst.GroupOf = index
	}
	return nil
}
