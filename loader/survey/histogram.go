package survey

import (
	"math"
	"sync"
)

// maxBins is the maximum of StatsOptions.Bins. slots is a power of two, so that an index needs no check, and larger
// than maxBins: some slots are for values that belong to no bin.
const (
	maxBins = 255
	slots   = 512
)

// histogram counts values in bins of equal width between the least and the greatest; a value
// on an edge belongs to the bin above, the greatest to the last. (As NumPy has it.)
//
// Slot i+1 belongs to bin i, and the slot behind the bins to the greatest value alone. The first
// slot takes values below the range, the last ones values above it. The pass that found the
// range met no such value.
type histogram struct {
	bins  int
	lo    float64
	scale float64 // bins to a unit
	// edges are the lower one of each slot. NaN, which ends any search, is at both ends.
	edges [slots + 1]float64
}

// histograms recycles histograms, which take more memory than many tensors.
var histograms = sync.Pool{New: func() any { return new(histogram) }}

// newHistogram returns an empty histogram of that many bins from lo to hi, or of a single bin if lo equals hi. The
// caller returns it to the pool histograms.
func newHistogram(lo, hi float64, bins int) *histogram {
	if lo == hi {
		bins = 1
	}
	n := float64(bins)
	h := histograms.Get().(*histogram)
	h.bins, h.lo, h.scale = bins, lo, n/(hi-lo)
	if math.IsInf(h.scale, 0) {
		h.scale = 0 // of a single bin, or of one beyond arithmetic: the edges find the place
	}
	width := (hi - lo) / n
	h.edges[0], h.edges[slots] = math.NaN(), math.NaN()
	for i := range slots - 1 {
		edge := &h.edges[i+1]
		switch share := float64(i) / n; {
		case i > bins:
			*edge = math.Inf(1)
		case i == bins:
			*edge = hi
		case math.IsInf(width, 0): // hi-lo is no float64
			*edge = float64(lo*(1-share)) + float64(hi*share)
		default:
			*edge = lo + float64(width*float64(i))
		}
	}
	// The slot behind the bins takes hi alone: it ends at the next float64.
	h.edges[bins+2] = math.Nextafter(hi, math.Inf(1))
	return h
}

// counters holds a count for each slot.
type counters [slots]uint64

// tally counts the values of v, which are finite.
func tally[T float](h *histogram, counts *counters, v []T) {
	for _, x := range v {
		counts[h.slot(float64(x))]++
	}
}

// slot returns the slot of x, a finite value. Its first guess is rarely wrong, and then by one. The NaN at both ends of
// edges ends the search. i%slots spares a check of the index.
func (h *histogram) slot(x float64) uint {
	i := uint(int64((x-h.lo)*h.scale) + 1)
	for x < h.edges[i%slots] {
		i--
	}
	for x >= h.edges[i%slots+1] {
		i++
	}
	return i % slots
}

// addTo adds to bins[i] the count of bin i, which is counts[i+1]. Values equal to the greatest edge, which have a slot
// of their own, it adds to the last bin.
func (h *histogram) addTo(bins []uint64, counts *counters) {
	for i := range h.bins + 1 {
		bins[min(i, h.bins-1)] += counts[i+1]
	}
}
