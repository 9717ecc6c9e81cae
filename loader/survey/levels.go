package survey

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/mmapio"
)

// Percents are the percentages whose percentiles TensorStats has.
var Percents = [5]float64{0.1, 1, 50, 99, 99.9}

// SigmaBins is the number of bins of a histogram by σ.
const SigmaBins = 89

// SigmaEdge returns the lower edge of bin i of a histogram by σ, in standard deviations from the mean. Edges are equally
// far apart in asinh(x/2): bins are ¼ σ wide in the middle, and 12 % of the distance from the mean far out.
// SigmaEdge(SigmaBins) is 256, the upper edge of the last bin. The first and last bins count what lies beyond too.
func SigmaEdge(i int) float64 {
	return 2 * math.Sinh(math.Asinh(128)*(2*float64(i)/SigmaBins-1))
}

// numCodes is the number of different upper halves of a float32.
const numCodes = 1 << 16

// table counts values by code: the upper 16 bits of a float32, which are all bits of a BF16.
type table[N uint32 | uint64] [numCodes]N

// tables recycles the tables of tensors of several parts.
var tables = sync.Pool{New: func() any { return new(table[uint64]) }}

// counter counts the values of a part by code. It is empty between parts.
type counter struct{ counts table[uint32] }

// codeCount says how many values have a code.
type codeCount struct {
	code uint16
	n    uint64
}

// countFloats counts float32s by their upper halves. It reads them as integers: the way out of a register of floats takes longer.
func (c *counter) countFloats(v []float32) {
	b := mmapio.Bytes(v)
	for ; len(b) >= 16; b = b[16:] {
		two, more := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		c.counts[uint16(two>>16)]++
		c.counts[uint16(two>>48)]++
		c.counts[uint16(more>>16)]++
		c.counts[uint16(more>>48)]++
	}
	for ; len(b) > 0; b = b[4:] {
		c.counts[binary.LittleEndian.Uint16(b[2:])]++
	}
}

// countCentered counts the distances x−center of the values in v, by the upper halves of these as float32s. A finite value whose
// distance overflows float32 counts as the greatest float32.
func countCentered[T float](c *counter, v []T, center float64) {
	for _, x := range v {
		d := float32(float64(x) - center)
		if math.IsInf(float64(d), 0) && !math.IsInf(float64(x), 0) {
			d = float32(math.Copysign(math.MaxFloat32, float64(d)))
		}
		c.counts[math.Float32bits(d)>>16]++
	}
}

// countBF16s counts the BF16s in b by their bits.
func (c *counter) countBF16s(b []byte) {
	for ; len(b) >= 16; b = b[16:] {
		four, more := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		c.counts[uint16(four)]++
		c.counts[uint16(four>>16)]++
		c.counts[uint16(four>>32)]++
		c.counts[uint16(four>>48)]++
		c.counts[uint16(more)]++
		c.counts[uint16(more>>16)]++
		c.counts[uint16(more>>32)]++
		c.counts[uint16(more>>48)]++
	}
	for ; len(b) >= 2; b = b[2:] {
		c.counts[binary.LittleEndian.Uint16(b)]++
	}
}

// all yields the codes that have values, with their counts. Most codes have none: it looks at many at once.
func (t *table[N]) all() iter.Seq2[int, *N] {
	const many = 128
	return func(yield func(code int, n *N) bool) {
		var none [many]N
		for first := 0; first < numCodes; first += many {
			some := (*[many]N)(t[first:])
			if *some == none {
				continue
			}
			for i := range some {
				if some[i] != 0 && !yield(first+i, &some[i]) {
					return
				}
			}
		}
	}
}

// moveTo adds all counts to sum, and sets them to 0.
func (c *counter) moveTo(sum *table[uint64]) {
	for code, n := range c.counts.all() {
		sum[code] += uint64(*n)
		*n = 0
	}
}

// takeCounts returns the counts that are not 0, with their codes, and sets them to 0.
func (t *table[N]) takeCounts() (list []codeCount) {
	for code, n := range t.all() {
		list = append(list, codeCount{uint16(code), uint64(*n)})
		*n = 0
	}
	return list
}

// level says that n values lie from lo to hi, ends included.
type level struct {
	lo, hi float64
	n      uint64
}

// rangeOfCode returns the least and the greatest of the float32s whose upper half is code.
func rangeOfCode(code uint16) (lo, hi float64) {
	bits := uint32(code) << 16
	lo, hi = float64(math.Float32frombits(bits)), float64(math.Float32frombits(bits|0xffff))
	if code&0x8000 != 0 {
		lo, hi = hi, lo
	}
	return lo, hi
}

// rankOfCode returns a number by which codes can be sorted: codes of larger float32s have larger numbers.
func rankOfCode(code uint16) uint16 {
	if code&0x8000 != 0 {
		return ^code
	}
	return code | 0x8000
}

// levels returns, in ascending order, the ranges of values that the codes of list stand for, and how many values lie in each. It adds
// center to a range, cuts it to the range of m, the summary of the values, and leaves out what is not finite. isExact says that values
// are BF16, so that a code stands for one value.
func levels(list []codeCount, isExact bool, center float64, m *summary) []level {
	slices.SortFunc(list, func(a, b codeCount) int { return int(rankOfCode(a.code)) - int(rankOfCode(b.code)) })
	all := make([]level, 0, len(list))
	least, greatest := m.min, m.max
	tiny := uint64(0) // zeros, and the subnormals that share their code
	for _, c := range list {
		if c.code&0x7fff == 0 {
			tiny += c.n
		}
	}
	onlyZeros := tiny == m.zeros && center == 0
	for _, c := range list {
		lo, hi := rangeOfCode(c.code)
		if !isFinite(lo) {
			continue
		}
		if onlyZeros && c.code&0x7fff == 0 {
			lo, hi = 0, 0
		} else if isExact {
			lo = valueOfBF16(c.code)
			hi = lo
		}
		lo, hi = lo+center, hi+center
		if hi >= math.MaxFloat32 {
			hi = greatest // larger float64s have this code too
		}
		if lo <= -math.MaxFloat32 {
			lo = least
		}
		lo, hi = min(max(lo, least), greatest), max(min(hi, greatest), least)
		all = append(all, level{lo, hi, c.n})
	}
	return all
}

// summarizeBF16s returns the summary of the BF16s that list counts by their bits. It does not set minAt and maxAt.
func summarizeBF16s(list []codeCount) summary {
	m := newSummary()
	all := list[:0:0]
	var sum float64
	for _, c := range list {
		switch x := valueOfBF16(c.code); {
		case x != x:
			m.nan += c.n
		case x > math.MaxFloat32:
			m.posInf += c.n
		case x < -math.MaxFloat32:
			m.negInf += c.n
		default:
			m.n += c.n
			m.zeros += c.n * oneIf(x == 0)
			m.min, m.max = min(m.min, x), max(m.max, x)
			sum += float64(x * float64(c.n))
			all = append(all, c)
		}
	}
	if m.n == 0 {
		return m
	}
	pivot := sum / float64(m.n)
	var unrounded float64 // what rounding has taken from pivot, times m.n
	for _, c := range all {
		unrounded += float64((valueOfBF16(c.code) - pivot) * float64(c.n))
	}
	m.mean = pivot + unrounded/float64(m.n)
	for _, c := range all {
		d := valueOfBF16(c.code) - m.mean
		squares := float64(float64(d*d) * float64(c.n))
		m.m2 += squares
		m.m3 += float64(squares * d)
		m.m4 += float64(squares * float64(d*d))
	}
	return m
}

// valueOfBF16 returns the value of a BF16 with these bits.
func valueOfBF16(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }

// quantile returns the value below which the given share of the n values in all lies. It interpolates between two neighbours, as NumPy
// does. all is in ascending order, and the values within a level are taken as evenly spread.
func quantile(all []level, n uint64, share float64) float64 {
	rank := share * float64(n-1)
	i := uint64(rank)
	x := valueOfRank(all, n, i)
	if toNext := rank - float64(i); toNext > 0 {
		x += toNext * (valueOfRank(all, n, i+1) - x)
	}
	return x
}

// valueOfRank returns the i-th smallest, counted from 0, of the n values in all. Inside a level it interpolates.
func valueOfRank(all []level, n, i uint64) float64 {
	if i == 0 {
		return all[0].lo
	}
	if i+1 >= n {
		return all[len(all)-1].hi
	}
	for _, l := range all {
		if i < l.n {
			return l.lo + (l.hi-l.lo)*(float64(i)+0.5)/float64(l.n)
		}
		i -= l.n
	}
	return all[len(all)-1].hi
}

// sigmaHistogram returns how many values of all lie in each bin by σ around the mean: see SigmaEdge. If an edge divides a
// level, the bins on both sides get shares by width.
func sigmaHistogram(all []level, mean, std float64) []uint64 {
	bins := make([]uint64, SigmaBins)
	var below, counted float64 // values of levels passed, and those in bins so far
	var done uint64
	i := 0
	for k := range bins {
		if k == SigmaBins-1 {
			for _, l := range all {
				bins[k] += l.n
			}
			bins[k] -= done
			break
		}
		edge := mean + std*SigmaEdge(k+1)
		for i < len(all) && all[i].hi < edge {
			below += float64(all[i].n)
			i++
		}
		counted = below
		if i < len(all) && all[i].lo < edge {
			counted += math.Round(float64(all[i].n) * (edge - all[i].lo) / (all[i].hi - all[i].lo))
		}
		bins[k] = uint64(counted) - done
		done = uint64(counted)
	}
	return bins
}
