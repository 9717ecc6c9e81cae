package quantize

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
	// Spoilt counts numbers that became NaN, and those that became infinite with the scale of their block. Err makes an
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
			l.zeroed(math.Abs(x))
		}
	}
}

// EncodeLoss does what Encode does, and counts the values lost. It expands the new elements to
// scratch, which is at least as long as src; otherwise the error wraps dequant.ErrLength.
func EncodeLoss(c dequant.Codec, dst []byte, src, importance, scratch []float32, cores int) (loss Loss, err error) {
	if err := check(c, len(dst), len(src), importance); err != nil {
		return loss, err
	}
	if len(scratch) < len(src) {
		return loss, fmt.Errorf("quantize: scratch of %d elements for %d: %w", len(scratch), len(src), dequant.ErrLength)
	}
	d, _, _ := c.Elements()
	if d == layout.F32 { // which holds everything
		loss.hasNonzero = slices.ContainsFunc(src, func(x float32) bool { return x != 0 })
		return loss, Encode(c, dst, src, nil, cores)
	}
	encode, grain, row := encoderOf(c, importance)
	tile := cmp.Or(row, lossTile)
	var mu sync.Mutex
	elems, size := d.BlockElems(), d.BlockBytes()
	err = simd.InParallel(cores, len(src), grain, func(lo, hi int) error {
		var part Loss
		values := scratch[lo:min(hi, lo+tile)]
		for at := lo; at < hi; at += tile {
			end := min(hi, at+tile)
			stored, was, is := dst[at/elems*size:end/elems*size], src[at:end], values[:end-at]
			part.Even += uint64(encode(stored, was))
			if inf := infinity16(d); inf != 0 && allNumbers(stored, inf) {
				part.hasNonzero = true
				continue // nothing is lost
			}
			if err := c.Expand(is, stored, 0, 1); err != nil {
				return err
			}
			part.count(was, is, elems)
		}
		mu.Lock()
		defer mu.Unlock()
		loss.Add(part)
		return nil
	})
	return loss, err
}

// lossTile is the number of elements that are encoded, expanded and compared at a time, so that the cache still has
// them. It is a multiple of every block.
const lossTile = 1 << 11

// infinity16 returns the bits of a 16-bit float's infinity; 0 for other types.
func infinity16(d layout.DType) uint16 {
	switch d {
	case layout.F16:
		return 0x7c00
	case layout.BF16:
		return 0x7f80
	}
	return 0
}

// allNumbers reports whether all 16-bit floats in b are finite and not zero. It takes four at a
// time, and reports false if b ends with fewer.
func allNumbers(b []byte, inf uint16) bool {
	const lanes = 0x0001_0001_0001_0001
	if len(b)%8 != 0 {
		return false
	}
	above := (0x8000 - uint64(inf)) * lanes // carries NaNs and infinities to the sign
	var notFinite uint64
	notZero := uint64(0x8000 * lanes)
	for ; len(b) >= 8; b = b[8:] {
		magnitudes := binary.LittleEndian.Uint64(b) & (0x7fff * lanes)
		notFinite |= magnitudes + above
		notZero &= magnitudes + 0x7fff*lanes
	}
	return notFinite&(0x8000*lanes) == 0 && notZero == 0x8000*lanes
}

// count counts the losses of values was that became is, in complete blocks of elems elements.
func (l *Loss) count(was, is []float32, elems int) {
	var zeroed, hasNonzero bool // in the block
	for done := 0; done < len(was); {
		n := min(compared, len(was)-done)
		z, r := l.compare(was[done:done+n], is[done:done+n], elems > 1)
		zeroed, hasNonzero, l.hasNonzero = zeroed || z, hasNonzero || r, l.hasNonzero || r
		if done += n; done%elems == 0 {
			if zeroed && !hasNonzero && elems > 1 {
				l.ZeroBlocks++
			}
			zeroed, hasNonzero = false, false
		}
	}
}

// compared is the number of values that compare takes: the bits of a uint32. It divides the block of every block type.
const compared = 32

// compare counts the losses of values was that became is. zeroed reports that a value became zero, and hasNonzero that
// one is not zero now. block says that the values are of a block type. The first loop has no branches, which processors
// cannot predict among weights.
func (l *Loss) compare(was, is []float32, block bool) (zeroed, hasNonzero bool) {
	const exponent = 1 << 23 // carries NaNs and infinities to the sign
	is = is[:len(was)]
	var notFinite, zeros uint32 // a sign; a bit for each value, the lowest for the last
	for i, x := range was {
		a, b := math.Float32bits(x)&^signBit, math.Float32bits(is[i])&^signBit
		notFinite |= (a + exponent) | (b + exponent)
		zeros = zeros<<1 | (b-1)>>31
	}
	hasNonzero = bits.OnesCount32(zeros) < len(was)
	if notFinite&signBit != 0 {
		for i, x := range was {
			if isFinite(x) != isFinite(is[i]) {
				l.NotFinite++
			}
			if is[i] != is[i] && x == x || block && isFinite(x) && !isFinite(is[i]) {
				l.Spoilt++
			}
		}
	}
	for ; zeros != 0; zeros &= zeros - 1 {
		if x := abs(was[len(was)-1-bits.TrailingZeros32(zeros)]); x > 0 && isFinite(x) {
			l.zeroed(float64(x))
			zeroed = true
		}
	}
	return zeroed, hasNonzero
}

// zeroed counts a value of this magnitude that became zero.
func (l *Loss) zeroed(magnitude float64) {
	l.Zeroed++
	l.Largest = max(l.Largest, magnitude)
}

func isFinite(f float32) bool { return math.Float32bits(f)&^signBit < infinity }
