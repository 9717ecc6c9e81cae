package quantize

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// A Loss counts the values of a tensor that its new encoding does not hold.
type Loss struct {
	// NotFinite counts finite values that became NaN or infinite, because they or the scale of
	// their block are beyond the type. It also counts others that became finite.
	NotFinite uint64
	// Spoilt counts numbers that became NaN, and numbers that became infinite with the scale of their block. Err makes an
	// error of them: nothing is left of such a block.
	Spoilt uint64
	// Zeroed counts values that became zero and were not.
	Zeroed uint64
	// Largest is the greatest magnitude among the values that Zeroed counts.
	Largest float64
	// ZeroBlocks counts the blocks of a block type that became zero as a whole and were not.
	ZeroBlocks uint64
	// Even counts the blocks that were weighed evenly, since importance would have left nothing of them.
	Even uint64

	hasNonzero bool // some value is not zero in the new encoding
}

// Err returns an error that wraps dequant.ErrNotFinite if Spoilt is not 0.
func (l *Loss) Err() error {
	if l.Spoilt == 0 {
		return nil
	}
	return fmt.Errorf("%d numbers became NaN or infinite, since the scale of their blocks is beyond float16: %w", l.Spoilt, dequant.ErrNotFinite)
}

// AllZeroed reports whether values became zero and no value is different from zero.
func (l *Loss) AllZeroed() bool { return l.Zeroed != 0 && !l.hasNonzero }

// Add adds the counts of other values of the tensor.
func (l *Loss) Add(more Loss) {
	l.NotFinite += more.NotFinite
	l.Spoilt += more.Spoilt
	l.Zeroed += more.Zeroed
	l.Largest = max(l.Largest, more.Largest)
	l.ZeroBlocks += more.ZeroBlocks
	l.Even += more.Even
	l.hasNonzero = l.hasNonzero || more.hasNonzero
}

// AddNarrowed counts the losses of rounding the F64s in src to values. EncodeLoss sees whether any value is not zero.
func (l *Loss) AddNarrowed(src []byte, values []float32) {
	for i, is := range values[:len(src)/8] {
		x := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		switch {
		case isFinite(is) != (math.Abs(x) <= math.MaxFloat64):
			l.NotFinite++
		case is == 0 && x != 0:
			l.countZeroed(math.Abs(x))
		}
	}
}

// EncodeLoss does what Encode does, counts the values lost, and sets values to the values of the new elements. It fails as
// Encode does. If values is shorter than src, the error wraps dequant.ErrLength.
func EncodeLoss(c dequant.Codec, dst []byte, src, importance, values []float32, cores int) (loss Loss, err error) {
	if err := check(c, len(dst), len(src), importance); err != nil {
		return loss, err
	}
	if len(values) < len(src) {
		return loss, fmt.Errorf("quantize: memory for %d values of %d elements: %w", len(values), len(src), dequant.ErrLength)
	}
	d, quant, hasScale := c.Elements()
	if d == layout.F32 { // which holds everything
		copy(values, src)
		loss.hasNonzero = slices.ContainsFunc(src, func(x float32) bool { return x != 0 })
		return loss, Encode(c, dst, src, nil, cores)
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	tile := wholeRows(lossTile, d, importance)
	var mu sync.Mutex
	err = simd.InParallel(cores, len(src), wholeRows(simd.ParallelGrain, d, importance), func(lo, hi int) error {
		var lost Loss
		for at := lo; at < hi; at += tile {
			end := min(hi, at+tile)
			stored := dst[at/elems*size : end/elems*size]
			lost.Even += uint64(encode(d, quant.Scale, stored, src[at:end], importance))
			if err := c.Expand(values[at:end], stored, 0, 1); err != nil {
				return err
			}
			if elems == 1 && !hasScale && areOrdinary(values[at:end]) { // with a scale, infinities become finite
				lost.hasNonzero = true
				continue
			}
			lost.count(src[at:end], values[at:end], elems)
		}
		mu.Lock()
		defer mu.Unlock()
		loss.Add(lost)
		return nil
	})
	return loss, err
}

// lossTile is the number of elements that are encoded, expanded and compared at a time, so that the cache still has
// them. It is a multiple of every block.
const lossTile = 1 << 11

// count adds to l what is lost when the values was become the values is. Both are whole blocks of elems elements.
func (l *Loss) count(was, is []float32, elems int) {
	inBlocks := elems > 1
	if !inBlocks {
		elems = len(was) // plain numbers are looked at as one block
	}
	for len(was) > 0 {
		zeroed, hasNonzero := false, false // in the block
		for i, x := range was[:elems] {
			switch y := is[i]; {
			case isFinite(x) && y != 0 && isFinite(y):
				hasNonzero = true
			case y == 0 && x != 0 && isFinite(x):
				zeroed = true
				l.countZeroed(float64(abs(x)))
			default:
				hasNonzero = hasNonzero || y != 0
				if isFinite(x) != isFinite(y) {
					l.NotFinite++
				}
				if y != y && x == x || inBlocks && isFinite(x) && !isFinite(y) {
					l.Spoilt++
				}
			}
		}
		if zeroed && !hasNonzero && inBlocks {
			l.ZeroBlocks++
		}
		l.hasNonzero = l.hasNonzero || hasNonzero
		was, is = was[elems:], is[elems:]
	}
}

// areOrdinary reports whether all values are finite and not zero. Floats that became such floats have lost nothing.
func areOrdinary(values []float32) bool {
	const exponent = 1 << 23 // carries NaNs and infinities to the sign
	signs := uint32(0)       // no branch for each value, which would take most of the time
	for _, x := range values {
		b := math.Float32bits(x) &^ signBit
		signs |= (b + exponent) | (b - 1) // b - 1 has the sign if b is 0
	}
	return signs&signBit == 0
}

// countZeroed counts a value of the given magnitude that became zero.
func (l *Loss) countZeroed(magnitude float64) {
	l.Zeroed++
	l.Largest = max(l.Largest, magnitude)
}

// isFinite reports whether f is neither infinite nor a NaN.
func isFinite(f float32) bool { return math.Float32bits(f)&^signBit < infinity }
