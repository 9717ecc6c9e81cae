package scheme

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// setMatrix sets w.shape, and w.Rows and w.Cols to the last two dimensions. It fails if shape has no dimension.
func (w *weight) setMatrix(shape []uint64) error {
	if len(shape) == 0 {
		return invalidf("codes %s are a scalar", w.quotedName(Codes))
	}
	w.shape = shape
	w.Rows, w.Cols = 1, shape[len(shape)-1]
	if len(shape) > 1 {
		w.Rows = shape[len(shape)-2]
	}
	return nil
}

// outerDims returns shape without its last two dimensions, which are those of one matrix.
func outerDims(shape []uint64) []uint64 { return shape[:max(len(shape)-2, 0)] }

// withLastDim returns a copy of shape whose last dimension is last.
func withLastDim(shape []uint64, last uint64) []uint64 {
	shape = slices.Clone(shape)
	shape[len(shape)-1] = last
	return shape
}

// ceilDiv returns a divided by b and rounded up, or 0 if b is 0.
func ceilDiv(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a/b + min(a%b, 1)
}

// elements returns the product of a shape. ok is false if it does not fit 64 bits.
func elements(shape []uint64) (n uint64, ok bool) {
	if slices.Contains(shape, 0) {
		return 0, true
	}
	n, ok = 1, true
	for _, dim := range shape {
		hi, lo := bits.Mul64(n, dim)
		n, ok = lo, ok && hi == 0
	}
	return n, ok
}

// setGroups sets w.GroupRows and w.GroupCols to how many rows and columns share a scale, as the shape of scale tells. Both stay 0
// if a matrix has one scale. blocks lists the rows and columns that a block may have: they are tried first, then groups within a
// row. It fails if the scales fit neither.
func (w *weight) setGroups(scale *layout.Tensor, blocks [][2]uint64) error {
	shape := w.dims(scale)
	n, _ := elements(shape)
	lead := outerDims(w.shape)
	all, _ := elements(w.shape)
	matrices, _ := elements(lead)
	if len(shape) == 4 && len(w.shape) == 2 && shape[1] == 1 && shape[3] == 1 {
		shape = []uint64{shape[0], shape[2]} // of ModelOpt's FP8_PB_WO
	}
	switch {
	case all == 0:
		return nil
	case len(lead) > 0 && w.config.quantMethod == "fbgemm_fp8":
		return w.setColumnGroups(shape)
	case n == 1 && (matrices > 1 || len(shape) < 2 || len(blocks) == 0): // one for the whole tensor, taken as one matrix
		rows, _ := elements(w.shape[:len(w.shape)-1])
		w.Rows, w.GroupRows, w.GroupCols = rows, 0, 0
		return nil
	case len(lead) > 0 && slices.Equal(shape, lead): // one for each matrix
		return nil
	case slices.Equal(shape, w.shape[:len(w.shape)-1]): // one for each row
		w.GroupRows = 1
		return nil
	case len(shape) != len(w.shape) || len(shape) < 2 || !slices.Equal(outerDims(shape), lead):
		return invalidf("scale %s of shape %v does not fit shape %v", w.quotedName(Scale), w.dims(scale), w.shape)
	}
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	for _, b := range blocks {
		if rows == ceilDiv(w.Rows, b[0]) && cols == ceilDiv(w.Cols, b[1]) {
			w.GroupRows, w.GroupCols = b[0], b[1]
			return nil
		}
	}
	switch {
	case rows == 1 && cols == 1 && len(blocks) == 0 && (w.Rows != 1 || w.groupSize == 0): // one for each matrix
		return nil
	case rows != w.Rows || cols == 0 || w.blockSides[0] > 0:
		return invalidf("scale %s of shape %v does not fit shape %v in blocks of %v", w.quotedName(Scale), w.dims(scale), w.shape, blocks)
	}
	w.GroupRows = 1
	g, err := w.fitGroupSize(w.Cols, cols)
	w.GroupCols = g
	return err
}

// setColumnGroups gives every column of a matrix a scale of its own, as FBGEMM stores experts: [experts, in, out]. shape is the
// shape of the scales. It fails unless that is [experts, 1, out] or [experts, out, 1].
func (w *weight) setColumnGroups(shape []uint64) error {
	one, cols := slices.Clone(w.shape), withLastDim(w.shape, 1)
	one[len(one)-2], cols[len(cols)-2] = 1, w.Cols
	if !slices.Equal(shape, one) && !slices.Equal(shape, cols) {
		return invalidf("scale %s of shape %v does not fit the columns of shape %v", w.quotedName(Scale), shape, w.shape)
	}
	w.GroupRows, w.GroupCols = 0, 1
	return nil
}

// setGroupCols sets w.GroupCols to the number of columns that share a scale. groups is how many scales are stored for a row. It
// fails if no group size fits, or several do.
func (w *weight) setGroupCols(groups uint64) (err error) {
	if w.groupIsRow && groups != 1 && w.Cols > 0 {
		return invalidf("scale %s has %d groups, and the configuration wants one", w.quotedName(Scale), groups)
	}
	if groups == 0 && w.Cols == 0 {
		return nil
	}
	w.ScaleCols = groups
	w.GroupCols, err = w.fitGroupSize(w.Cols, groups)
	return err
}

// layerParams returns the parameters that may hold for the layer: those of each config_group that may mean it, or else
// its only ones.
func (w *weight) layerParams() []params {
	if w.groupParams == nil {
		return []params{w.params}
	}
	return w.groupParams
}

// fitGroupSize returns how many columns share a scale, given cols columns and groups scales in a row; 0 means all. It
// takes the group size of the configuration, or else a usual one. It fails if none fits, or several do.
func (w *weight) fitGroupSize(cols, groups uint64) (size uint64, err error) {
	isSaid := false // the configuration has a group size, or says that a group is a whole row
	// One group may be a whole row if the configuration says so, or ModelOpt's, whose group size is not that of FP8.
	mayBeWhole := strings.HasPrefix(w.config.quantMethod, "modelopt")
	// The last group may be shorter, but these writers refuse columns that are not whole groups.
	mayBeRagged := w.Scheme != AWQ && w.config.quantMethod != "compressed-tensors"
	fits := func(n uint64) {
		if size != 0 && size != n && groups > 1 {
			err = invalidf("%d columns and %d groups of scale %s fit groups of %d and of %d", cols, groups, w.quotedName(Scale), size, n)
		}
		size = cmp.Or(size, n)
	}
	for _, p := range w.layerParams() {
		if p.groupIsRow || p.strategy == "channel" {
			isSaid, mayBeWhole = true, true
		}
		if p.groupSize != 0 {
			isSaid = true
			if ceilDiv(cols, p.groupSize) == groups && (cols%p.groupSize == 0 || groups == 1 || mayBeRagged) {
				fits(p.groupSize)
			}
		}
	}
	switch {
	case size != 0:
		return size, err
	case groups == 1 && (mayBeWhole || !isSaid):
		return 0, nil
	case isSaid:
		return 0, invalidf("%d columns are not the %d groups of scale %s with the configuration's group size", cols, groups, w.quotedName(Scale))
	}
	// Without a configuration: equal groups, mostly of a power of two, or groups of 128 and a shorter last one.
	if groups > 0 && cols%groups == 0 && cols/groups >= 8 && (bits.OnesCount64(cols/groups) == 1 || ceilDiv(cols, 128) == groups) {
		fits(cols / groups)
	}
	if ceilDiv(cols, 128) == groups {
		fits(128)
	}
	if size == 0 {
		err = invalidf("%d columns do not divide into the %d groups of scale %s, and no configuration has the group size", cols, groups, w.quotedName(Scale))
	}
	return size, err
}

// hasOnePerMatrix reports whether the tensor that has role r has one element for each matrix of the weight, or one for all.
func (w *weight) hasOnePerMatrix(r Role) bool {
	matrices, _ := elements(outerDims(w.shape))
	return w.elementsOf(r) == 1 || w.elementsOf(r) == matrices
}

// checkShapeOfScale returns an error unless the tensor with a role has the shape of the scales, so that each scale has
// an element of it.
func (w *weight) checkShapeOfScale(r Role) error {
	if !slices.Equal(w.dims(w.part(r)), w.dims(w.part(Scale))) {
		return invalidf("%s %s of shape %v does not fit the scale's, %v", r, w.quotedName(r), w.dims(w.part(r)), w.dims(w.part(Scale)))
	}
	return nil
}

// findGroupIndex returns how the weight's group index is stored: a tensor with the group of each column. Without such a tensor it
// returns the zero value. It fails if type or shape do not fit, or if the configuration speaks of an index that is missing.
func (w *weight) findGroupIndex() (g columnGroups, err error) {
	t := w.part(GroupIndex)
	if t == nil {
		if w.GroupCols != 0 && w.config.isOldRelease && slices.ContainsFunc(w.layerParams(), func(p params) bool { return p.hasActOrder }) {
			return g, invalidf("codes without the group index that the configuration speaks of (actorder)")
		}
		return g, nil
	}
	if w.elementsOf(GroupIndex) != w.Cols || len(outerDims(w.shape)) > 0 || (t.DType != layout.I32 && t.DType != layout.I64) {
		return g, invalidf("group index %s of %v %v does not fit %d columns", w.quotedName(GroupIndex), t.DType, w.dims(t), w.Cols)
	}
	return columnGroups{entryBytes: t.DType.BlockBytes()}, nil
}

// checkZeroPoints returns an error if the configuration speaks of zero points and the weight has none. With
// compressed-tensors the reverse is an error too.
func (w *weight) checkZeroPoints() error {
	some, all := false, true
	for _, p := range w.layerParams() {
		some, all = some || p.hasZeroPoints, all && p.hasZeroPoints
	}
	switch has := w.part(ZeroPoint) != nil; {
	case all && !has:
		return invalidf("codes without the zero points that the configuration speaks of (symmetric: false)")
	case has && !some && w.config.quantMethod == "compressed-tensors":
		return invalidf("zero points %s, and by the configuration there are none (symmetric)", w.quotedName(ZeroPoint))
	}
	return nil
}

// setIntegerZeroPoints sets w.HasOffsets if the weight has zero points, which are stored as plain integers. It fails if their type
// or shape does not fit, or if the configuration and the parts disagree about whether there are any.
func (w *weight) setIntegerZeroPoints() error {
	t := w.part(ZeroPoint)
	if err := w.checkZeroPoints(); err != nil || t == nil {
		return err
	}
	if codes := w.part(Codes).DType; t.DType != codes && t.DType != layout.I8 || codes.Kind() != layout.KindInt {
		return unsupportedf("zero points %s of type %v beside codes of type %v", w.quotedName(ZeroPoint), t.DType, codes)
	}
	w.HasOffsets = true
	return w.checkShapeOfScale(ZeroPoint)
}
