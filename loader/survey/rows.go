package survey

import (
	"encoding/binary"
	"math"
	"sync"
)

// zeroRows counts the rows of a matrix whose Euclidean norm is 0: NaN and infinities are left out of it. Its methods may be called at
// once, with runs of values in any order.
type zeroRows struct {
	columns uint64 // values of a row; 0 if the tensor has less than two rows

	mu    sync.Mutex
	count uint64
	begun map[uint64]uint64 // zeros of rows that several runs have, by row
}

// newZeroRows returns a counter for a tensor of a shape: its first dimension counts the rows.
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

// add adds the run of n values from element first on. isNothing reports whether the i-th value of the run is 0 or not finite, and so
// adds nothing to a norm. Once a value of a row does, add skips the rest of the row.
func (z *zeroRows) add(first, n uint64, isNothing func(i uint64) bool) {
	if z.columns == 0 {
		return
	}
	for at := uint64(0); at < n; {
		row := (first + at) / z.columns
		from := at
		end := min((row+1)*z.columns-first, n)
		for at < end && isNothing(at) {
			at++
		}
		if at == end {
			z.addZeros(row, end-from)
		}
		at = end
	}
}

// addZeros adds n values of a row that add nothing to its norm. Once all of the row's values do, it counts the row.
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

// addFloats adds the run v of values from element first on to z.
func addFloats[T float](z *zeroRows, v []T, first uint64) {
	z.add(first, uint64(len(v)), func(i uint64) bool { return v[i] == 0 || !isFinite(v[i]) })
}

// addBF16s adds the run b of BF16s from element first on.
func (z *zeroRows) addBF16s(b []byte, first uint64) {
	z.add(first, uint64(len(b)/2), func(i uint64) bool {
		x := math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		return x == 0 || !isFinite(x)
	})
}
