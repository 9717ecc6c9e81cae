package survey

import "sync"

// zeroRows counts the rows of a tensor whose Euclidean norm is 0, with NaN and infinities taken as 0. Its methods may be called at
// once, with runs of values in any order, but with every element once.
type zeroRows struct {
	columns uint64 // values of a row; 0 if the tensor has less than two rows

	mu    sync.Mutex
	count uint64
	begun map[uint64]uint64 // zeros of rows that several runs have, by row
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

// add counts the rows that are known to be zero rows once this run has been added. The run has the n values from element first on.
// countsAsZero reports whether value i of the run is 0 or not finite. After a value for which it reports false, add skips the rest of the
// row.
func (z *zeroRows) add(first, n uint64, countsAsZero func(i uint64) bool) {
	if z.columns == 0 {
		return
	}
	for at := uint64(0); at < n; {
		row := (first + at) / z.columns
		from := at
		end := min((row+1)*z.columns-first, n)
		for at < end && countsAsZero(at) {
			at++
		}
		if at == end {
			z.addZeros(row, end-from)
		}
		at = end
	}
}

// addZeros notes that n further values of a row count as zero. Once all of the row's values do, it counts the row.
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

// addFloats calls z.add for the run v of values from element first on.
func addFloats[T float](z *zeroRows, v []T, first uint64) {
	z.add(first, uint64(len(v)), func(i uint64) bool { return v[i] == 0 || !isFinite(v[i]) })
}
