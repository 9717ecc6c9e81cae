package survey

import "sync"

// zeroRows counts the rows of a tensor whose Euclidean norm is 0, with NaN and infinities taken as 0. Runs of values may be added
// concurrently and in any order. Every element must be added exactly once.
type zeroRows struct {
	columns uint64 // values of a row; 0 if the tensor has less than two rows

	mu    sync.Mutex
	count uint64
	begun map[uint64]uint64 // how many zeros were added of a row that is not complete, by row
}

// newZeroRows returns a counter of zero rows for a tensor of this shape: a row is a position of the first dimension. It counts nothing
// for fewer than two dimensions or rows.
func newZeroRows(shape []int) *zeroRows {
	z := &zeroRows{begun: make(map[uint64]uint64)}
	if len(shape) > 1 && shape[0] > 1 {
		z.columns = 1
		for _, n := range shape[1:] {
			z.columns *= uint64(n)
		}
	}
	return z
}

// addRun adds a run of the tensor's values: v has the values from the element with number first on. addRun counts each zero row that the run
// completes. After a value that is finite and not 0, it skips the rest of that value's row. It does nothing if z counts nothing.
func addRun[T float](z *zeroRows, v []T, first uint64) {
	if z.columns == 0 {
		return
	}
	for at, n := uint64(0), uint64(len(v)); at < n; {
		row := (first + at) / z.columns
		from := at
		end := min((row+1)*z.columns-first, n)
		for at < end && (v[at] == 0 || !isFinite(v[at])) {
			at++
		}
		if at == end {
			z.addZeros(row, end-from)
		}
		at = end
	}
}

// addZeros notes that n more values of the given row are taken as 0. If all values of the row are then known to be 0, it counts the row.
func (z *zeroRows) addZeros(row, n uint64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if n += z.begun[row]; n < z.columns {
		z.begun[row] = n
		return
	}
	z.count++
	delete(z.begun, row)
}
