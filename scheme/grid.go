package scheme

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// matrix sets w.full to the weight's shape, and w.Rows and w.Cols to its last two dimensions. It fails if the shape
// has no dimension.
func (w *weight) matrix(shape []uint64) error {
	if len(shape) == 0 {
		return misfit("codes %s are a scalar", w.name(Codes))
	}
	w.full = shape
	w.Rows, w.Cols = 1, shape[len(shape)-1]
	if len(shape) > 1 {
		w.Rows = shape[len(shape)-2]
	}
	return nil
}

// outer returns the dimensions of shape before those of one matrix.
func outer(shape []uint64) []uint64 { return shape[:max(len(shape)-2, 0)] }

// widened returns shape with its last dimension replaced.
func widened(shape []uint64, last uint64) []uint64 {
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

// grid sets w.GroupRows and w.GroupCols, the elements that share a scale, from the shape of the scales. Both stay 0
// if a matrix has one. It tries blocks, pairs of rows and columns, before groups of columns, and fails if none fits.
func (w *weight) grid(scale *layout.Tensor, blocks [][2]uint64) error {
	shape := w.dims(scale)
	n, _ := elements(shape)
	lead := outer(w.full)
	all, _ := elements(w.full)
	matrices, _ := elements(lead)
	if len(shape) == 4 && len(w.full) == 2 && shape[1] == 1 && shape[3] == 1 {
		shape = []uint64{shape[0], shape[2]} // of ModelOpt's FP8_PB_WO
	}
	switch {
	case all == 0:
		return nil
	case len(lead) > 0 && w.conf.method == "fbgemm_fp8":
		return w.columnScales(shape)
	case n == 1 && (matrices > 1 || len(shape) < 2 || len(blocks) == 0): // one for the whole tensor, taken as one matrix
		rows, _ := elements(w.full[:len(w.full)-1])
		w.Rows, w.GroupRows, w.GroupCols = rows, 0, 0
		return nil
	case len(lead) > 0 && slices.Equal(shape, lead): // one for each matrix
		return nil
	case slices.Equal(shape, w.full[:len(w.full)-1]): // one for each row
		w.GroupRows = 1
		return nil
	case len(shape) != len(w.full) || len(shape) < 2 || !slices.Equal(outer(shape), lead):
		return misfit("scale %s of shape %v does not fit shape %v", w.name(Scale), w.dims(scale), w.full)
	}
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	for _, b := range blocks {
		if rows == ceilDiv(w.Rows, b[0]) && cols == ceilDiv(w.Cols, b[1]) {
			w.GroupRows, w.GroupCols = b[0], b[1]
			return nil
		}
	}
	switch {
	case rows == 1 && cols == 1 && len(blocks) == 0 && (w.Rows != 1 || w.group == 0): // one for each matrix
		return nil
	case rows != w.Rows || cols == 0 || w.block[0] > 0:
		return misfit("scale %s of shape %v does not fit shape %v in blocks of %v", w.name(Scale), w.dims(scale), w.full, blocks)
	}
	w.GroupRows = 1
	g, err := w.groupSize(w.Cols, cols)
	w.GroupCols = g
	return err
}

// columnScales makes every column of a matrix a group, for FBGEMM's experts, stored as [experts, in, out]. Their
// scales may lie along either of the last dimensions. It fails if they are not one for each column.
func (w *weight) columnScales(shape []uint64) error {
	one, cols := slices.Clone(w.full), widened(w.full, 1)
	one[len(one)-2], cols[len(cols)-2] = 1, w.Cols
	if !slices.Equal(shape, one) && !slices.Equal(shape, cols) {
		return misfit("scale %s of shape %v does not fit the columns of shape %v", w.name(Scale), shape, w.full)
	}
	w.GroupRows, w.GroupCols = 0, 1
	return nil
}

// columns sets w.GroupCols, the columns of a group, for scales that are stored by groups. groups is the number of
// groups in a row. It fails if no size of a group fits.
func (w *weight) columns(groups uint64) (err error) {
	if w.whole && groups != 1 && w.Cols > 0 {
		return misfit("scale %s has %d groups, and the configuration wants one", w.name(Scale), groups)
	}
	if groups == 0 && w.Cols == 0 {
		return nil
	}
	w.ScaleCols = groups
	w.GroupCols, err = w.groupSize(w.Cols, groups)
	return err
}

// candidates returns the parameters that the layer may have: those of the configuration's groups that name it, or of
// all groups if none does.
func (w *weight) candidates() []params {
	if len(w.conf.groups) == 0 {
		return []params{w.params}
	}
	if named := w.conf.ask(w.layer).named; len(named) > 0 {
		return slices.Clip(named)
	}
	return slices.Clip(w.conf.all)
}

// groupSize returns how many of cols columns a group has if there are groups of them, 0 for all columns. It takes
// the configuration's size, and without one a usual size. It fails if none fits, or several do.
func (w *weight) groupSize(cols, groups uint64) (size uint64, err error) {
	isSaid := false // the configuration has a group size, or says that a group is a whole row
	// One group may be a whole row if the configuration says so, or ModelOpt's, whose group size is not that of FP8.
	mayBeWhole := strings.HasPrefix(w.conf.method, "modelopt")
	// The last group may be shorter, but these writers refuse columns that are not whole groups.
	mayBeRagged := w.Scheme != AWQ && w.conf.method != "compressed-tensors"
	fits := func(n uint64) {
		if size != 0 && size != n && groups > 1 {
			err = misfit("%d columns and %d groups of scale %s fit groups of %d and of %d", cols, groups, w.name(Scale), size, n)
		}
		size = cmp.Or(size, n)
	}
	for _, p := range w.candidates() {
		if p.whole || p.strategy == "channel" {
			isSaid, mayBeWhole = true, true
		}
		if p.group != 0 {
			isSaid = true
			if ceilDiv(cols, p.group) == groups && (cols%p.group == 0 || groups == 1 || mayBeRagged) {
				fits(p.group)
			}
		}
	}
	switch {
	case size != 0:
		return size, err
	case groups == 1 && (mayBeWhole || !isSaid):
		return 0, nil
	case isSaid:
		return 0, misfit("%d columns are not the %d groups of scale %s with the configuration's group size", cols, groups, w.name(Scale))
	}
	// Without a configuration: equal groups, mostly of a power of two, or groups of 128 and a shorter last one.
	if groups > 0 && cols%groups == 0 && cols/groups >= 8 && (bits.OnesCount64(cols/groups) == 1 || ceilDiv(cols, 128) == groups) {
		fits(cols / groups)
	}
	if ceilDiv(cols, 128) == groups {
		fits(128)
	}
	if size == 0 {
		err = misfit("%d columns do not divide into the %d groups of scale %s, and no configuration has the group size", cols, groups, w.name(Scale))
	}
	return size, err
}

// onePerMatrix reports whether a part has one element, or one for each matrix.
func (w *weight) onePerMatrix(r Role) bool {
	matrices, _ := elements(outer(w.full))
	return w.elementsOf(r) == 1 || w.elementsOf(r) == matrices
}

// sameGrid returns an error unless a part has the shape of the scales, and so an entry for each of them.
func (w *weight) sameGrid(r Role) error {
	if !slices.Equal(w.dims(w.part(r)), w.dims(w.part(Scale))) {
		return misfit("%s %s of shape %v does not fit the scale's, %v", r, w.name(r), w.dims(w.part(r)), w.dims(w.part(Scale)))
	}
	return nil
}

// index checks the group index, which has the group of each column, and returns how it is stored. An index that is
// mayBeUnset counts as none if it is all −1. It fails if the configuration wants one and there is none.
func (w *weight) index(mayBeUnset bool) (g columnGroups, err error) {
	t := w.part(GroupIndex)
	if t == nil {
		if w.GroupCols != 0 && w.conf.isOld && slices.ContainsFunc(w.candidates(), func(p params) bool { return p.indexed }) {
			return g, misfit("codes without the group index that the configuration speaks of (actorder)")
		}
		return g, nil
	}
	if w.elementsOf(GroupIndex) != w.Cols || len(outer(w.full)) > 0 || (t.DType != layout.I32 && t.DType != layout.I64) {
		return g, misfit("group index %s of %v %v does not fit %d columns", w.name(GroupIndex), t.DType, w.dims(t), w.Cols)
	}
	return columnGroups{size: t.DType.BlockBytes(), mayBeUnset: mayBeUnset}, nil
}

// asymmetry returns an error if the configuration says that there are zero points, and there are none.
// compressed-tensors must also say so if there are some; programs disagree about other writers.
func (w *weight) asymmetry() error {
	some, all := false, true
	for _, p := range w.candidates() {
		some, all = some || p.asymmetric, all && p.asymmetric
	}
	switch has := w.part(ZeroPoint) != nil; {
	case all && !has:
		return misfit("codes without the zero points that the configuration speaks of (symmetric: false)")
	case has && !some && w.conf.method == "compressed-tensors":
		return misfit("zero points %s, and by the configuration there are none (symmetric)", w.name(ZeroPoint))
	}
	return nil
}

// zeros checks the zero points of codes that are not packed, and sets w.HasOffsets if there are some. It fails if
// their type or shape does not fit, or the configuration has others.
func (w *weight) zeros() error {
	t := w.part(ZeroPoint)
	if err := w.asymmetry(); err != nil || t == nil {
		return err
	}
	if codes := w.part(Codes).DType; t.DType != codes && t.DType != layout.I8 || codes.Kind() != layout.KindInt {
		return unsupported("zero points %s of type %v beside codes of type %v", w.name(ZeroPoint), t.DType, codes)
	}
	w.HasOffsets = true
	return w.sameGrid(ZeroPoint)
}
