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
	// Largest is the greatest magnitude among those.
	Largest float64
	// ZeroBlocks counts the blocks of a block type that became zero as a whole and were not.
	ZeroBlocks uint64
	// Even counts the blocks that were weighed evenly, since importance would have left nothing of them.
	Even uint64

	remains bool // a value that is not zero
}

// Err returns an error that wraps dequant.ErrNotFinite if numbers are spoilt.
func (l *Loss) Err() error {
	if l.Spoilt == 0 {
		return nil
	}
	return fmt.Errorf("%d numbers became NaN or infinite, since the scale of their blocks is beyond float16: %w", l.Spoilt, dequant.ErrNotFinite)
}

// AllZeroed reports whether values became zero and no other value remains.
func (l *Loss) AllZeroed() bool { return l.Zeroed != 0 && !l.remains }

// Add adds the counts of other values of the tensor.
func (l *Loss) Add(more Loss) {
	l.NotFinite += more.NotFinite
	l.Spoilt += more.Spoilt
	l.Zeroed += more.Zeroed
	l.Largest = max(l.Largest, more.Largest)
	l.ZeroBlocks += more.ZeroBlocks
	l.Even += more.Even
	l.remains = l.remains || more.remains
}

// AddNarrowed counts the F64s in src that values, made of them, do not hold. EncodeLoss sees
// which of the values remain.
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
		loss.remains = slices.ContainsFunc(src, func(x float32) bool { return x != 0 })
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
				part.remains = true
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

// lossTile is how many elements are expanded and compared while the cache still has them. It is a
// multiple of every block.
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

// count compares values with their successors, in whole blocks of elems.
func (l *Loss) count(was, is []float32, elems int) {
	var zeroed, remains bool // of the block
	for done := 0; done < len(was); {
		n := min(compared, len(was)-done)
		z, r := l.compare(was[done:done+n], is[done:done+n], elems > 1)
		zeroed, remains, l.remains = zeroed || z, remains || r, l.remains || r
		if done += n; done%elems == 0 {
			if zeroed && !remains && elems > 1 {
				l.ZeroBlocks++
			}
			zeroed, remains = false, false
		}
	}
}

// compared is how many values are compared at a time: the bits of a uint32, and the block of every
// block type that has a quantizer.
const compared = 32

// compare reports whether a value became zero, and whether one remains that is not. Its first loop
// has no branches, which processors cannot predict among weights.
func (l *Loss) compare(was, is []float32, block bool) (zeroed, remains bool) {
	const exponent = 1 << 23 // carries NaNs and infinities to the sign
	is = is[:len(was)]
	var notFinite, zeros uint32 // a sign; a bit for each value, the lowest for the last
	for i, x := range was {
		a, b := math.Float32bits(x)&^signBit, math.Float32bits(is[i])&^signBit
		notFinite |= (a + exponent) | (b + exponent)
		zeros = zeros<<1 | (b-1)>>31
	}
	remains = bits.OnesCount32(zeros) < len(was)
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
	return zeroed, remains
}

func (l *Loss) zeroed(magnitude float64) {
	l.Zeroed++
	l.Largest = max(l.Largest, magnitude)
}

func isFinite(f float32) bool { return math.Float32bits(f)&^signBit < infinity }
