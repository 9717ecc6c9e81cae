package scheme

import (
	"math/bits"
	"strings"
)

// setGroupCols sets w.ScaleCols to groups, the number of scales that are stored for a row. It sets w.GroupCols, the number of columns that
// share a scale, by fitGroupSize. It sets nothing if there are neither columns nor groups. It fails if the configuration has one group for a
// row and groups is another number, or if fitGroupSize does.
func (w *weight) setGroupCols(groups uint64) error {
	if w.groupIsRow && groups != 1 && w.Cols > 0 {
		return invalidf("scale %s has %d groups, and the configuration wants one", w.quotedName(Scale), groups)
	}
	if groups == 0 && w.Cols == 0 {
		return nil
	}
	w.ScaleCols = groups
	return w.fitGroupSize(groups)
}

// layerParams returns the parameters that may hold for the layer: the parameters of each config_group that may name the
// layer. If the configuration has no groups, it returns w.params alone.
func (w *weight) layerParams() []params {
	if w.groupParams == nil {
		return []params{w.params}
	}
	return w.groupParams
}

// fitGroupSize sets w.GroupCols to the number of columns that share a scale, where 0 means the whole row. groups is the
// number of scales that a row has. fitGroupSize takes the group size that the configuration states, or else a usual one. It
// fails if no size fits, or if two sizes fit and would divide a row differently.
func (w *weight) fitGroupSize(groups uint64) error {
	sizes, isStated, groupMayBeRow := w.statedGroupSizes(groups)
	switch {
	case len(sizes) > 0:
	case groups == 1 && (groupMayBeRow || !isStated): // the only group is the row
		return nil
	case isStated:
		return invalidf("%d columns are not the %d groups of scale %s with the configuration's group size", w.Cols, groups, w.quotedName(Scale))
	default:
		sizes = usualGroupSizes(w.Cols, groups)
	}
	if len(sizes) == 0 {
		return invalidf("%d columns do not divide into the %d groups of scale %s, and no configuration has the group size", w.Cols, groups, w.quotedName(Scale))
	}
	for _, n := range sizes {
		if n != sizes[0] && groups > 1 { // all sizes mean the same for a single group
			return invalidf("%d columns and %d groups of scale %s fit groups of %d and of %d", w.Cols, groups, w.quotedName(Scale), sizes[0], n)
		}
	}
	w.GroupCols = sizes[0]
	return nil
}

// statedGroupSizes returns the group sizes of the configuration that divide the columns into the given number of groups.
// isStated is true if the configuration has a group size, even one that does not fit, or says that a group is a row.
// groupMayBeRow is true if a single group may be a whole row.
func (w *weight) statedGroupSizes(groups uint64) (sizes []uint64, isStated, groupMayBeRow bool) {
	groupMayBeRow = strings.HasPrefix(w.config.quantMethod, "modelopt") // whose group size is the size of other layers than FP8's
	// The last group may be shorter, but these writers refuse columns that are not whole groups.
	mayBeRagged := w.Scheme != AWQ && w.config.quantMethod != "compressed-tensors"
	for _, p := range w.layerParams() {
		if p.groupIsRow || p.strategy == "channel" {
			isStated, groupMayBeRow = true, true
		}
		if p.groupSize == 0 {
			continue
		}
		isStated = true
		isWhole := w.Cols%p.groupSize == 0 || groups == 1 // the only group may be as short as a row
		if ceilDiv(w.Cols, p.groupSize) == groups && (isWhole || mayBeRagged) {
			sizes = append(sizes, p.groupSize)
		}
	}
	return sizes, isStated, groupMayBeRow
}

// usualGroupSizes returns the group sizes that fit if no configuration has one. The first is the size that makes all groups
// equal. It must be 8 or more, and a power of two unless 128 fits too: nothing tells which of the two holds. The second is
// 128, where the last group may be shorter. The list has 128 twice if both are 128.
func usualGroupSizes(cols, groups uint64) (sizes []uint64) {
	fits128 := ceilDiv(cols, 128) == groups
	if groups > 0 && cols%groups == 0 {
		n := cols / groups
		if isPowerOfTwo := bits.OnesCount64(n) == 1; n >= 8 && (isPowerOfTwo || fits128) {
			sizes = append(sizes, n)
		}
	}
	if fits128 {
		sizes = append(sizes, 128)
	}
	return sizes
}
