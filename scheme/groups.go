package scheme

import (
	"cmp"
	"context"
	"encoding/binary"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// scaleCols returns how many scales are stored for each row of groups, padding included.
func (f *Form) scaleCols() uint64 {
	_, needed := dequant.Grouped(f.Grouped).Scales(0, f.Cols)
	return cmp.Or(f.ScaleCols, needed)
}

// scalesPerMatrix returns the number of scales of one matrix of the weight.
func (f *Form) scalesPerMatrix() uint64 {
	_, n := dequant.Grouped(f.Grouped).Scales(0, f.Rows*f.Cols)
	return n
}

// readStored fills dst.Scales with stored scales, beginning with the scale number from. If f.HasOffsets, it fills dst.Offsets with as many
// biases or zero points. It fails if reading does.
func readStored(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := p.Floats(ctx, Scale, f.scaleType, dst.Scales, from); err != nil || !f.HasOffsets {
		return err
	}
	offsets := ZeroPoint
	if f.Bias {
		offsets = Bias
	}
	return p.Floats(ctx, offsets, storedType, dst.Offsets, from)
}

// setOneOffset sets dst.Offsets to one offset for all groups, if there are any.
func (dst *Scales) setOneOffset(offset float32) {
	if len(dst.Scales) > 0 {
		dst.Offsets = append(dst.Offsets, offset)
	}
}

// transpose writes stored, a matrix of groups × rows values, to dst as a matrix of rows × groups. A file may store groups
// without columns at the end of each row. dst may then end before such groups of its last row.
func transpose(dst, stored []float32, groups, rows uint64) {
	all := dst
	if len(dst) < len(stored) {
		all = make([]float32, len(stored))
	}
	dequant.Transpose(all, stored, int(groups), int(rows))
	copy(dst, all) // which does nothing if all is dst
}

// readTransposedScales fills dst with all scales of a matrix, row by row. They are stored column by column. It fails if reading does.
func readTransposedScales(ctx context.Context, p Parts, f *Form, dst []float32) error {
	stored := make([]float32, f.Rows*f.scaleCols())
	if err := p.Floats(ctx, Scale, f.scaleType, stored, 0); err != nil {
		return err
	}
	transpose(dst, stored, f.scaleCols(), f.Rows)
	return nil
}

// readPackedZeroPoints fills dst with zero points that are packed as codes are. It divides the part's bytes and dst into as
// many equal blocks as blocks says, one or more. g describes the codes of one block as a matrix. It ignores further bytes of a
// block. It fails if reading does, or if a block has too few bytes.
func readPackedZeroPoints(ctx context.Context, p Parts, g dequant.Grouped, blocks uint64, dst []float32) error {
	words, err := p.Bytes(ctx, ZeroPoint)
	if err != nil || len(dst) == 0 {
		return err
	}
	perBlock, blockBytes, scaleOfOne := uint64(len(dst))/blocks, uint64(len(words))/blocks, []float32{1}
	_, bytesNeeded := g.Codes(0, perBlock)
	if bytesNeeded > blockBytes {
		return p.Wrap(ZeroPoint, invalidf("%d bytes of zero points, not %d", blockBytes, bytesNeeded))
	}
	for i := range blocks {
		codes := words[i*blockBytes:][:bytesNeeded]
		if err := g.Expand(dst[i*perBlock:][:perBlock], dequant.Parts{Codes: codes, Scales: scaleOfOne}, 0, dequant.AllCores); err != nil {
			return p.Wrap(ZeroPoint, err)
		}
	}
	return nil
}

// columnGroups says how a group index (act-order) is stored. The index has a group for each column, so that the
// columns of a group need not be consecutive.
type columnGroups struct {
	entryBytes           int  // bytes of a number; 0 if groups are consecutive
	mustBeSet            bool // an index of nothing but −1 is an error; else it was never set, and groups are consecutive
	zerosMeanConsecutive bool // an index of nothing but zeros means groups of consecutive columns; else all columns are in group 0
}

// The values of Scales.ZeroIndex, other than none.
const (
	zerosAreGroups  = "as it is"
	zerosAreIgnored = "for consecutive groups, without desc_act"
)

// read sets dst.GroupOf to the stored group index: the group of each column. dst.GroupOf stays nil if there is no index, or
// if the index has consecutive groups. It also stays nil for an index of nothing but −1, unless g.mustBeSet. An index of
// nothing but zeros may mean what it says, or nothing, if a row has several groups. If g.zerosMeanConsecutive, dst.GroupOf
// stays nil, else all columns are in group 0. dst.ZeroIndex then says which. read fails if reading does, or if a column has a
// group that does not exist.
func (g columnGroups) read(ctx context.Context, p Parts, f *Form, dst *Scales) error {
	if g.entryBytes == 0 || f.Cols == 0 || f.Rows == 0 {
		return nil
	}
	b, err := p.Bytes(ctx, GroupIndex)
	if err != nil {
		return err
	}
	entry := func(col int) int64 { // setGroupIndex has checked that b has one for each column
		if g.entryBytes == 8 {
			return int64(binary.LittleEndian.Uint64(b[8*col:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(b[4*col:])))
	}
	_, groups := dequant.Grouped(f.Grouped).Scales(0, f.Cols) // of one row
	groupCols := cmp.Or(f.GroupCols, f.Cols)
	groupOf := make([]int32, f.Cols)
	isUnset, isZero, isConsecutive := true, true, true
	var wrong error // of the first column whose group does not exist
	for col := range groupOf {
		v := entry(col)
		if wrong == nil && (v < 0 || uint64(v) >= groups) {
			wrong = p.Wrap(GroupIndex, invalidf("column %d is in group %d of %d", col, v, groups))
		}
		groupOf[col] = int32(v)
		isUnset, isZero, isConsecutive = isUnset && v == -1, isZero && v == 0, isConsecutive && uint64(v) == uint64(col)/groupCols
	}
	switch {
	case isUnset && !g.mustBeSet:
		return nil
	case wrong != nil:
		return wrong
	case isZero && groups > 1 && g.zerosMeanConsecutive:
		dst.ZeroIndex = zerosAreIgnored
		return nil
	case isZero && groups > 1:
		dst.ZeroIndex = zerosAreGroups
	}
	if !isConsecutive {
		dst.GroupOf = groupOf
	}
	return nil
}

// integers returns the elements of b, the content of a small tensor of integers or booleans of type d. It fails if d is
// another type. It fails if b ends within an element, or if an element is negative.
func integers(d layout.DType, b []byte) ([]uint64, error) {
	size, kind := d.BlockBytes(), d.Kind()
	isInteger := kind == layout.KindInt || kind == layout.KindUint || kind == layout.KindBool
	if !isInteger || size == 0 || len(b)%size != 0 {
		return nil, invalidf("%d bytes of %v are no integers", len(b), d)
	}
	list := make([]uint64, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		var word [8]byte // no type of integers is larger
		copy(word[:], b[:size])
		v := binary.LittleEndian.Uint64(word[:])
		if signBit := v >> (8*size - 1); kind == layout.KindInt && signBit != 0 {
			return nil, invalidf("a negative size")
		}
		list = append(list, v)
	}
	return list, nil
}
