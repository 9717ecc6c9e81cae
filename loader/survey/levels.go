package survey

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"
)

// Percents are the percentages whose percentiles TensorStats has.
var Percents = [5]float64{0.1, 1, 50, 99, 99.9}

// SigmaBins is the number of bins of a histogram by σ.
const SigmaBins = 89

// SigmaEdge returns the lower edge of bin i, from 0 to SigmaBins, of a histogram by σ, in standard deviations from the mean. Edges are
// equally far apart in asinh(x/2): bins are ¼ σ wide in the middle, and 12 % of the distance from the mean far out.
// SigmaEdge(0) is -256. SigmaEdge(SigmaBins) is 256, the upper edge of the last bin. The first and last bins count what lies beyond too.
func SigmaEdge(i int) float64 {
	return 2 * math.Sinh(math.Asinh(128)*(2*float64(i)/SigmaBins-1))
}

// numCodes is the number of different upper halves of a float32.
const numCodes = 1 << 16

// table counts values by code: the upper 16 bits of a float32, which are all bits of a BF16.
type table[N uint32 | uint64] [numCodes]N

// tables recycles the tables of tensors of several batches.
var tables = sync.Pool{New: func() any { return new(table[uint64]) }}

// codeCount says how many values have a code: the upper half of bits. If isValue is true, it counts only the values with exactly these bits,
// or the values of a cell. It then takes each value of the cell for the value of bits.
type codeCount struct {
	bits    uint32 // of a float32; bits that are not known are 0
	isValue bool
	n       uint64
}

// A cell is the float32s with the same upper 28 bits: a code of 16 bits, then the cell's number within the code. A table, which has
// places for 1<<16 cells, counts the cells of up to 16 codes. The codes are in a list, and the slot of a code is its position in that list.
// Place slot<<cellBits | cell of the table counts the values of that cell.
const (
	cellBits    = 12 // of a cell's number
	droppedBits = 4  // below
)

// maxSorted is the largest number of values that are sorted, rather than counted in a table. Up to this number, sorting takes about as long
// as a table does, and its counts are exact.
const maxSorted = 1 << 11

// countEach returns the different values of v, which are float32s, with their counts, in ascending order behind NaNs.
func countEach[T float](v []T) (list []codeCount) {
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	for i, x := range sorted {
		if i == 0 || x != sorted[i-1] {
			list = append(list, codeCount{bits: math.Float32bits(float32(x)), isValue: true})
		}
		list[len(list)-1].n++
	}
	return list
}

// countDistances counts the distances x−center of the values in v, as float32s, by code: their upper 16 bits. If codes are given, at most
// 16, it counts only distances with one of these codes, by the code and the next 12 bits.
func countDistances[T float](counts *table[uint32], codes []uint16, v []T, center float64) {
	for _, x := range v {
		bits := bitsOfDistance(x, center)
		place := uint16(bits >> 16)
		if len(codes) > 0 {
			slot := slices.Index(codes, place)
			if slot < 0 {
				continue
			}
			// The place has 4 bits of the slot's number, then the 12 bits of the distance that follow the code.
			place = uint16(slot)<<cellBits | uint16(bits)>>droppedBits
		}
		counts[place]++
	}
}

// bitsOfDistance returns the bits of x−center as a float32. If x is finite and float32 cannot hold the distance, it returns the bits of
// ±MaxFloat32.
func bitsOfDistance[T float](x T, center float64) uint32 {
	d := float32(float64(x) - center)
	if math.IsInf(float64(d), 0) && !math.IsInf(float64(x), 0) {
		d = float32(math.Copysign(math.MaxFloat32, float64(d)))
	}
	return math.Float32bits(d)
}

// all yields each code whose count is not 0, with a pointer to the count, which the caller may set to 0 meanwhile. It compares many counts
// with 0 at once, since most codes have none.
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

// moveTo adds the counts of t to sum, and sets them to 0. A batch has at most batchElements values,
// and a sample is expected to have fewer than 1<<32, so no count of a batch overflows.
func (t *table[N]) moveTo(sum *table[uint64]) {
	for code, n := range t.all() {
		sum[code] += uint64(*n)
		*n = 0
	}
}

// takeCounts returns the counts that are not 0, with their codes, and sets them to 0. The codes ascend as float32s: negative ones come
// first.
func (t *table[N]) takeCounts() (list []codeCount) {
	for code, n := range t.all() {
		list = append(list, codeCount{bits: uint32(code) << 16, n: uint64(*n)})
		*n = 0
	}
	positive := sort.Search(len(list), func(i int) bool { return list[i].bits>>31 != 0 }) // the codes of negative values follow, and descend
	slices.Reverse(list[positive:])
	return slices.Concat(list[positive:], list[:positive])
}

// level says that n values lie from lo to hi, ends included.
type level struct {
	lo, hi float64
	before uint64 // the number of values in smaller levels
	n      uint64
	code   uint16 // of the values' distances from the center
	isOpen bool   // has distances beyond MaxFloat32, which may be anywhere up to lo or hi
}

// bounds returns the least and the greatest of the float32s that c may count. For a code they share the upper 16 bits. For a value both are
// that value. For a cell both are the float32 of the cell that is nearest to zero.
func (c *codeCount) bounds() (lo, hi float64) {
	lo = float64(math.Float32frombits(c.bits))
	if c.isValue {
		return lo, lo
	}
	hi = float64(math.Float32frombits(c.bits | 0xffff))
	return min(lo, hi), max(lo, hi)
}

// orderedBits maps the bits of float32s to integers in the same order: a larger float32 has a larger integer. Negative NaNs come
// first, and positive NaNs last.
func orderedBits(bits uint32) uint32 {
	if bits>>31 != 0 {
		return ^bits
	}
	return bits | 1<<31
}

// crowded returns the codes of the levels that need a finer count. Such a level has more than 0.1 % of all n values, and the percentile of
// one of Percents lies in it. There are at most two codes for each percentage, since a percentile may lie between two values. crowded
// leaves out levels of a single value, and open ones.
func crowded(all []level, n uint64) (codes []uint16) {
	for _, percent := range Percents {
		at := percent / 100 * float64(max(n, 1)-1)
		for _, i := range [2]uint64{uint64(at), uint64(math.Ceil(at))} {
			l, _ := levelOfRank(all, i)
			if l.lo < l.hi && 1000*l.n > n && !l.isOpen && !slices.Contains(codes, l.code) {
				codes = append(codes, l.code)
			}
		}
	}
	return codes
}

// refine returns counts in which the entries of cells replace the entries of codes, in ascending order of their float32s. An entry of cells
// counts a place in the table of countDistances, and its upper 16 bits are that place. They are 4 bits of the slot's number, then 12 bits of
// the cell's. Slot i belongs to codes[i].
func refine(counts []codeCount, codes []uint16, cells []codeCount) []codeCount {
	counts = slices.DeleteFunc(counts, func(c codeCount) bool { return slices.Contains(codes, uint16(c.bits>>16)) })
	for _, c := range cells {
		slot, cell := c.bits>>(16+cellBits), (c.bits>>16)&((1<<cellBits)-1)
		counts = append(counts, codeCount{bits: (uint32(codes[slot]) << 16) | (cell << droppedBits), isValue: true, n: c.n})
	}
	slices.SortFunc(counts, func(a, b codeCount) int { return cmp.Compare(orderedBits(a.bits), orderedBits(b.bits)) })
	return counts
}

// isZeroCode reports whether the code of c is the code of 0 and small subnormals, of either sign. All bits of such a code but the sign, the
// first one, are 0.
func (c *codeCount) isZeroCode() bool { return (c.bits<<1)>>17 == 0 }

// levels returns the ranges of values that the entries of list count, and the number of values in each. list ascends as float32s, and so
// do the levels. Entries count distances from center: levels adds center to the distances, and cuts ranges to m.min and m.max. It leaves out
// entries of NaN and of infinities. A level is open if its entry also counts distances beyond MaxFloat32. n is the number of values.
func levels(list []codeCount, center float64, m *summary) (all []level, n uint64) {
	all = make([]level, 0, len(list))
	least, greatest := m.min, m.max
	tiny := uint64(0) // zeros, and the subnormals that share their code
	for _, c := range list {
		if c.isZeroCode() {
			tiny += c.n
		}
	}
	tinyAreZeros := tiny == m.zeros && center == 0 // no subnormals are among them: their level is zero alone
	for _, c := range list {
		lo, hi := c.bounds()
		if !isFinite(lo) {
			continue
		}
		if tinyAreZeros && c.isZeroCode() {
			lo, hi = 0, 0
		}
		l := level{lo: min(max(lo+center, least), greatest), hi: max(min(hi+center, greatest), least), before: n, n: c.n, code: uint16(c.bits >> 16)}
		n += c.n
		switch { // bitsOfDistance gives distances beyond MaxFloat32 the code of MaxFloat32
		case hi >= math.MaxFloat32 && greatest-center > hi:
			l.hi, l.isOpen = greatest, true
		case lo <= -math.MaxFloat32 && least-center < lo:
			l.lo, l.isOpen = least, true
		}
		all = append(all, l)
	}
	if len(all) > 0 {
		all[0].lo, all[len(all)-1].hi = least, greatest
	}
	return all, n
}

// quantile returns the value below which the given share, from 0 to 1, of n values lies. The levels in all count these values: they ascend,
// and have one value at least. quantile interpolates between two neighbours, as NumPy does. It returns NaN if one of the two lies in an open
// level.
func quantile(all []level, n uint64, share float64) float64 {
	rank := share * float64(n-1)
	i := uint64(rank)
	x := valueOfRank(all, n, i)
	if toNext := rank - float64(i); toNext > 0 {
		x += toNext * (valueOfRank(all, n, i+1) - x)
	}
	return x
}

// valueOfRank returns the i-th smallest, counted from 0, of the n values that the levels in all count. It takes the values of a level as
// evenly spread. It returns NaN inside an open level, whose values lie anywhere.
func valueOfRank(all []level, n, i uint64) float64 {
	if i == 0 {
		return all[0].lo
	}
	if i+1 >= n {
		return all[len(all)-1].hi
	}
	l, i := levelOfRank(all, i)
	if l.isOpen {
		return math.NaN()
	}
	return l.lo + (l.hi-l.lo)*(float64(i)+0.5)/float64(l.n)
}

// levelOfRank returns the level of the i-th smallest value, counted from 0, and the value's rank within the level. The level is empty
// if there are no more than i values.
func levelOfRank(all []level, i uint64) (l level, within uint64) {
	k := sort.Search(len(all), func(k int) bool { return i < all[k].before+all[k].n })
	if k == len(all) {
		return level{}, 0
	}
	return all[k], i - all[k].before
}

// sigmaHistogram returns how many of the values that the levels in all count lie in each bin by σ around the mean: see SigmaEdge. If an edge
// divides a level, the bins on both sides get shares by width. The last bin gets all values that the other bins did not get.
func sigmaHistogram(all []level, mean, std float64) []uint64 {
	bins := make([]uint64, SigmaBins)
	passed := 0.0        // the number of values in levels below the edge
	counted := uint64(0) // the number of values in the bins before
	i := 0
	for k := range bins[:SigmaBins-1] {
		edge := mean + std*SigmaEdge(k+1)
		for i < len(all) && all[i].hi < edge {
			passed += float64(all[i].n)
			i++
		}
		below := passed
		if i < len(all) && all[i].lo < edge {
			below += math.Round(float64(all[i].n) * (edge - all[i].lo) / (all[i].hi - all[i].lo))
		}
		bins[k] = uint64(below) - counted
		counted = uint64(below)
	}
	for _, l := range all {
		bins[SigmaBins-1] += l.n
	}
	bins[SigmaBins-1] -= counted
	return bins
}
