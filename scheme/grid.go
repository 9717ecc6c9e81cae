package scheme

import (
	"math/bits"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// setMatrix sets w.shape, and w.Rows and w.Cols to the last two dimensions. A vector is one row. It fails if shape has no dimension.
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

// outerDims returns shape without its last two dimensions, which are the dimensions of one matrix.
func outerDims(shape []uint64) []uint64 { return shape[:max(len(shape)-2, 0)] }

// withLastDim returns a copy of shape, which is not empty, with its last dimension replaced by last.
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
	n, ok = 1, true
	for _, dim := range shape {
		hi, lo := bits.Mul64(n, dim)
		n, ok = lo, ok && hi == 0
	}
	return n, ok || slices.Contains(shape, 0)
}

// asOneMatrix takes all matrices of the weight as one matrix, which has the rows of all of them. The number of rows may
// overflow: findShape refuses such a weight later.
func (w *weight) asOneMatrix() { w.Rows, _ = elements(w.shape[:len(w.shape)-1]) }

// setGroups sets w.GroupRows and w.GroupCols to how many rows and columns share a scale, as the shape of the scales tells.
// setMatrix must have set the weight's shape. Both stay 0 if there are no elements, or if each matrix has one scale. If the
// whole tensor has one scale, it calls asOneMatrix, and both stay 0. blocks lists the rows and columns that a block may have.
// It fails unless there is one scale for the tensor, each matrix, row or block, or for each group within a row. FBGEMM's
// experts must have one for each column.
func (w *weight) setGroups(blocks [][2]uint64) error {
	shape := w.dims(w.part(Scale))
	if isModelOptBlocks := len(shape) == 4 && len(w.shape) == 2 && shape[1] == 1 && shape[3] == 1; isModelOptBlocks { // its FP8_PB_WO
		shape = []uint64{shape[0], shape[2]}
	}
	scales, _ := elements(shape)
	all, _ := elements(w.shape)
	outer := outerDims(w.shape)
	matrices, _ := elements(outer)
	// A scale of shape [1, 1] may be the scale of a block, unless there are more matrices.
	oneForAll := scales == 1 && (matrices > 1 || len(shape) < 2 || len(blocks) == 0)
	onePerMatrix := len(outer) > 0 && slices.Equal(shape, outer)
	onePerRow := slices.Equal(shape, w.shape[:len(w.shape)-1])
	isGrid := len(shape) == len(w.shape) && len(shape) >= 2 && slices.Equal(outerDims(shape), outer)
	areExperts := len(outer) > 0 && w.config.quantMethod == "fbgemm_fp8" // [experts, in, out], with a scale for each column
	switch {
	case all == 0:
	case areExperts:
		asRow, asColumn := slices.Concat(outer, []uint64{1, w.Cols}), slices.Concat(outer, []uint64{w.Cols, 1})
		if slices.Equal(shape, asRow) || slices.Equal(shape, asColumn) {
			w.GroupCols = 1 // and w.GroupRows is 0: all rows
			return nil
		}
		return invalidf("scale %s of shape %v does not fit the columns of shape %v", w.quotedName(Scale), shape, w.shape)
	case oneForAll:
		w.asOneMatrix()
	case onePerMatrix:
	case onePerRow:
		w.GroupRows = 1
	case isGrid:
		return w.setGrid(shape[len(shape)-2], shape[len(shape)-1], blocks)
	default:
		return invalidf("scale %s of shape %v does not fit shape %v", w.quotedName(Scale), w.dims(w.part(Scale)), w.shape)
	}
	return nil
}

// setGrid sets w.GroupRows and w.GroupCols for scales that lie over each matrix in a grid of rows × cols. blocks lists the
// rows and columns that a block may have, and setGrid tries blocks first. Then it tries one scale for the matrix. Then it
// tries groups within each row, unless the configuration has blocks. It fails if nothing fits.
func (w *weight) setGrid(rows, cols uint64, blocks [][2]uint64) error {
	for _, sides := range blocks {
		if rows == ceilDiv(w.Rows, sides[0]) && cols == ceilDiv(w.Cols, sides[1]) {
			w.GroupRows, w.GroupCols = sides[0], sides[1]
			return nil
		}
	}
	isOneGroupOfRow := w.Rows == 1 && w.groupSize != 0 // which fitGroupSize compares with the configuration's group size
	switch {
	case rows == 1 && cols == 1 && len(blocks) == 0 && !isOneGroupOfRow:
		return nil
	case rows != w.Rows || cols == 0 || w.blockSides[0] > 0:
		return invalidf("scale %s of shape %v does not fit shape %v in blocks of %v", w.quotedName(Scale), w.dims(w.part(Scale)), w.shape, blocks)
	}
	w.GroupRows = 1
	return w.fitGroupSize(cols)
}

// hasOnePerMatrix reports whether the tensor with role r has one element for each matrix of the weight, or one for all.
func (w *weight) hasOnePerMatrix(r Role) bool {
	matrices, _ := elements(outerDims(w.shape))
	return w.elementsOf(r) == 1 || w.elementsOf(r) == matrices
}

// checkShapeOfScale returns an error unless the tensor with role r has the shape of the tensor of scales: one element for each scale.
func (w *weight) checkShapeOfScale(r Role) error {
	if !slices.Equal(w.dims(w.part(r)), w.dims(w.part(Scale))) {
		return invalidf("%s %s of shape %v does not fit the scale's, %v", r, w.quotedName(r), w.dims(w.part(r)), w.dims(w.part(Scale)))
	}
	return nil
}

// setGroupIndex sets how the weight's group index is stored, if there is one: a tensor with the group of each column. It then sets
// w.Ordered to false. It fails if the tensor's type or shape does not fit, and for weights of more than two dimensions. Releases of
// compressed-tensors before 0.18 need an index for columns out of order (actorder). For such a release setGroupIndex fails if actorder is set
// and a weight with groups of columns has no index. Later releases need no index, since they store columns by groups.
func (w *weight) setGroupIndex() error {
	index := w.part(GroupIndex)
	if index == nil {
		hasActOrder := slices.ContainsFunc(w.layerParams(), func(p params) bool { return p.hasActOrder })
		if w.GroupCols != 0 && w.config.isBefore018 == yes && hasActOrder {
			return invalidf("codes without the group index that the configuration speaks of (actorder)")
		}
		return nil
	}
	isInteger := index.DType == layout.I32 || index.DType == layout.I64
	if w.elementsOf(GroupIndex) != w.Cols || len(outerDims(w.shape)) > 0 || !isInteger {
		return invalidf("group index %s of %v %v does not fit %d columns", w.quotedName(GroupIndex), index.DType, w.dims(index), w.Cols)
	}
	w.groupIndex.entryBytes, w.Ordered = index.DType.BlockBytes(), false
	return nil
}

// checkZeroPoints compares the weight's zero points with the configuration. It returns an error if the weight has none and all
// of layerParams speak of some. For compressed-tensors, it also returns one if the weight has zero points and none of
// layerParams speaks of them.
func (w *weight) checkZeroPoints() error {
	mayExist, mustExist := false, true
	for _, p := range w.layerParams() {
		mayExist, mustExist = mayExist || p.hasZeroPoints, mustExist && p.hasZeroPoints
	}
	switch hasZeros := w.part(ZeroPoint) != nil; {
	case mustExist && !hasZeros:
		return invalidf("codes without the zero points that the configuration speaks of (symmetric: false)")
	case hasZeros && !mayExist && w.config.quantMethod == "compressed-tensors":
		return invalidf("zero points %s, and by the configuration there are none (symmetric)", w.quotedName(ZeroPoint))
	}
	return nil
}

// setIntegerZeroPoints sets w.HasOffsets if the weight has zero points, which are stored as plain integers. For such a weight it
// returns ErrUnsupported unless the codes are integers, and the zero points are of the codes' type or of I8. It fails if the
// tensor of zero points has another shape than the tensor of scales. For any weight it fails if checkZeroPoints does.
func (w *weight) setIntegerZeroPoints() error {
	if err := w.checkZeroPoints(); err != nil {
		return err
	}
	zero, codes := w.part(ZeroPoint), w.part(Codes)
	if zero == nil {
		return nil
	}
	typeFits := zero.DType == codes.DType || zero.DType == layout.I8
	if !typeFits || codes.DType.Kind() != layout.KindInt {
		return unsupportedf("zero points %s of type %v beside codes of type %v", w.quotedName(ZeroPoint), zero.DType, codes.DType)
	}
	w.HasOffsets = true
	return w.checkShapeOfScale(ZeroPoint)
}
