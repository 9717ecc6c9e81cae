package survey

import (
	"cmp"
	"encoding/binary"
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

// counter counts the values of a part by code, or by cell. It is empty between parts.
type counter struct {
	counts table[uint32]
	slots  [numCodes]uint8 // of codes that are counted by cell, from 1 on; 0 of others
}

// codeCount says how many values have a code. If it isValue, it counts values with all these bits, or those of a cell.
type codeCount struct {
	bits    uint32 // of a float32; those that are not known are 0
	isValue bool
	n       uint64
}

// A cell is a 4,096th of the float32s of a code. A table has cells for 16 codes, in slots.
const (
	cellBits = 4
	slotBits = 12
)

// maxSorted is the number of values, at most, that a tensor has if they are sorted: that takes about as long as a table, and is exact.
const maxSorted = 1 << 11

// countEach counts values by all their bits, in the order of their floats. It sorts them by a byte at a time.
func countEach(v []float32) (list []codeCount) {
	var spaces [2][maxSorted]uint32
	all, spare := spaces[0][:len(v)], spaces[1][:len(v)]
	for i, x := range v {
		all[i] = rank(math.Float32bits(x))
	}
	for shift := 0; shift < 32; shift += 8 {
		var places [256]int // of the next value with this byte
		for _, r := range all {
			places[uint8(r>>shift)]++
		}
		for i, at := 0, 0; i < len(places); i++ {
			places[i], at = at, at+places[i]
		}
		for _, r := range all {
			place := &places[uint8(r>>shift)]
			spare[*place] = r
			*place++
		}
		all, spare = spare, all
	}
	list = make([]codeCount, 0, len(all))
	for i, r := range all {
		if i == 0 || r != all[i-1] {
			list = append(list, codeCount{bits: bitsOfRank(r), isValue: true})
		}
		list[len(list)-1].n++
	}
	return list
}

// countCentered counts the distances x−center of the values in v, by the upper halves of these as float32s. A finite value whose
// distance overflows float32 counts as the greatest float32.
func countCentered[T float](c *counter, v []T, center float64) {
	for _, x := range v {
		c.counts[bitsOfDistance(x, center)>>16]++
	}
}

// setSlots gives codes slots in their order.
func (c *counter) setSlots(codes []uint16) {
	for i, code := range codes {
		c.slots[code] = uint8(i + 1)
	}
}

// clearSlots takes the slots of codes away.
func (c *counter) clearSlots(codes []uint16) {
	for _, code := range codes {
		c.slots[code] = 0
	}
}

// countCells counts the distances of values from center by cell, those of codes that have a slot.
func countCells[T float](c *counter, v []T, center float64) {
	for _, x := range v {
		bits := bitsOfDistance(x, center)
		if slot := c.slots[bits>>16]; slot > 0 {
			c.counts[uint16(slot-1)<<slotBits|uint16(bits)>>cellBits]++
		}
	}
}

// bitsOfDistance returns the bits of the distance of x from center, as float32: the greatest for finite distances beyond.
func bitsOfDistance[T float](x T, center float64) uint32 {
	d := float32(float64(x) - center)
	if math.IsInf(float64(d), 0) && !math.IsInf(float64(x), 0) {
		d = float32(math.Copysign(math.MaxFloat32, float64(d)))
	}
	return math.Float32bits(d)
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

// takeCounts returns the counts that are not 0, with their codes in the order of their floats, and sets them to 0.
func (t *table[N]) takeCounts() []codeCount {
	var all, negative int
	for code := range t.all() {
		all++
		negative += code / (numCodes / 2)
	}
	list := make([]codeCount, all)
	positive := list[negative:]
	for code, n := range t.all() { // the positive ones come first, and each sign from zero on
		c := codeCount{uint32(code) << 16, false, uint64(*n)}
		*n = 0
		if code < numCodes/2 {
			positive[0], positive = c, positive[1:]
		} else {
			negative--
			list[negative] = c
		}
	}
	return list
}

// level says that n values lie from lo to hi, ends included.
type level struct {
	lo, hi float64
	before uint64 // values in the levels before
	n      uint64
	code   uint16 // of their distances from the center
	isOpen bool   // has values that float32 cannot hold
}

// span returns the least and the greatest of the float32s that c may count: of a cell the one that is nearest to zero.
func (c *codeCount) span() (lo, hi float64) {
	lo = c.value()
	if c.isValue {
		return lo, lo
	}
	hi = float64(math.Float32frombits(c.bits | 0xffff))
	return min(lo, hi), max(lo, hi)
}

// rank returns a number that is the larger the larger the float32s with these bits are: negative ones come first.
func rank(bits uint32) uint32 {
	if bits>>31 != 0 {
		return ^bits
	}
	return bits | 1<<31
}

// bitsOfRank returns the bits whose rank is r.
func bitsOfRank(r uint32) uint32 {
	if r>>31 != 0 {
		return r &^ (1 << 31)
	}
	return ^r
}

// crowded returns the codes of levels that have a percentile of n values, and more than 0.1 % of the values: at most two codes for each
// of Percents. It leaves out levels of a single value, and those with distances that float32 cannot hold.
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

// refine returns counts with the counts of codes replaced by those of their cells, which are taken by slot, in the order of their floats.
func refine(counts []codeCount, codes []uint16, cells []codeCount) []codeCount {
	counts = slices.DeleteFunc(counts, func(c codeCount) bool { return slices.Contains(codes, uint16(c.bits>>16)) })
	for _, c := range cells {
		slot, cell := c.bits>>(16+slotBits), c.bits>>16&(1<<slotBits-1)
		counts = append(counts, codeCount{uint32(codes[slot])<<16 | cell<<cellBits, true, c.n})
	}
	slices.SortFunc(counts, func(a, b codeCount) int { return cmp.Compare(rank(a.bits), rank(b.bits)) })
	return counts
}

// levels returns the ranges of values that the codes of list stand for, and how many values lie in each. list has the order of the
// floats, and so have the levels. It adds center to a range, cuts it to the range of m, the summary of the values, and leaves out what is
// not finite. isExact says that values are BF16, so that a code stands for one value.
func levels(list []codeCount, isExact bool, center float64, m *summary) []level {
	all := make([]level, 0, len(list))
	least, greatest := m.min, m.max
	before := uint64(0)
	tiny := uint64(0) // zeros, and the subnormals that share their code
	for _, c := range list {
		if c.bits<<1>>17 == 0 {
			tiny += c.n
		}
	}
	onlyZeros := tiny == m.zeros && center == 0
	for _, c := range list {
		lo, hi := c.span()
		if !isFinite(lo) {
			continue
		}
		if onlyZeros && c.bits<<1>>17 == 0 {
			lo, hi = 0, 0
		} else if isExact {
			lo = c.value()
			hi = lo
		}
		l := level{min(max(lo+center, least), greatest), max(min(hi+center, greatest), least), before, c.n, uint16(c.bits >> 16), false}
		before += c.n
		switch { // larger distances have the code of the greatest too
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
	return all
}

// value returns the float32 with the bits that are known: the value, if it is a BF16.
func (c *codeCount) value() float64 { return float64(math.Float32frombits(c.bits)) }

// summarizeBF16s returns the summary of the BF16s that list counts by their bits, in the order of their floats. It does not set minAt and maxAt.
func summarizeBF16s(list []codeCount) summary {
	m := newSummary()
	var sum float64
	var finite []codeCount // which are neighbours in list
	for i, c := range list {
		switch x := c.value(); {
		case x != x:
			m.nan += c.n
		case x > math.MaxFloat32:
			m.posInf += c.n
		case x < -math.MaxFloat32:
			m.negInf += c.n
		default:
			finite = list[i-len(finite) : i+1]
			m.n += c.n
			m.zeros += c.n * oneIf(x == 0)
			m.min, m.max = min(m.min, x), max(m.max, x)
			sum += float64(x * float64(c.n))
		}
	}
	if m.n == 0 {
		return m
	}
	pivot := sum / float64(m.n)
	var unrounded float64 // what rounding has taken from pivot, times m.n
	for _, c := range finite {
		unrounded += float64((c.value() - pivot) * float64(c.n))
	}
	m.mean = pivot + unrounded/float64(m.n)
	for _, c := range finite {
		d := c.value() - m.mean
		squares := float64(float64(d*d) * float64(c.n))
		m.m2 += squares
		m.m3 += float64(squares * d)
		m.m4 += float64(squares * float64(d*d))
	}
	return m
}

// rangeOfBF16s returns the least and the greatest finite value of the BF16s that are counted: infinities if there are none.
func (c *counter) rangeOfBF16s() [2]float64 {
	r := [2]float64{math.Inf(1), math.Inf(-1)}
	for code := range c.counts.all() {
		if x := valueOfBF16(uint16(code)); isFinite(x) {
			r = [2]float64{min(r[0], x), max(r[1], x)}
		}
	}
	return r
}

// bitsOfBF16 returns the bits of x, which is a BF16: of +0 if it is -0.
func bitsOfBF16(x float64) uint16 { return uint16(math.Float32bits(float32(x+0)) >> 16) }

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

// valueOfRank returns the i-th smallest, counted from 0, of the n values in all. Inside a level it interpolates, but for an open one it
// returns NaN: values there lie anywhere.
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

// levelOfRank returns the level of the i-th smallest value, counted from 0, and the number of smaller values in it. The level is empty
// if there are fewer values.
func levelOfRank(all []level, i uint64) (l level, before uint64) {
	k := sort.Search(len(all), func(k int) bool { return i < all[k].before+all[k].n })
	if k == len(all) {
		return level{}, 0
	}
	return all[k], i - all[k].before
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
