package survey

import "math"

// maxBins is as many as an index of one byte allows, with one to spare.
const maxBins = 255

// histogram counts values in bins of equal width between the least and the greatest; a value
// on an edge belongs to the bin above, the greatest to the last. (As NumPy has it.)
type histogram struct {
	bins  int
	lo    float64
	scale float64              // bins to a unit
	edges [maxBins + 2]float64 // the lower one of each bin, then the greatest value, then infinities
}

// newHistogram has a single bin where all values are the same.
func newHistogram(lo, hi float64, bins int) *histogram {
	if lo == hi {
		bins = 1
	}
	n := float64(bins)
	h := &histogram{bins: bins, lo: lo, scale: n / (hi - lo)}
	if math.IsInf(h.scale, 0) {
		h.scale = 0 // of a single bin, or of one beyond arithmetic: the edges find the place
	}
	width := (hi - lo) / n
	for i := range h.edges {
		switch share := float64(i) / n; {
		case i >= bins:
			h.edges[i] = math.Inf(1)
		case math.IsInf(width, 0):
			h.edges[i] = float64(lo*(1-share)) + float64(hi*share)
		default:
			h.edges[i] = lo + float64(width*float64(i))
		}
	}
	h.edges[bins] = hi
	return h
}

// counters are one for each bin, and one more for the greatest value.
type counters [maxBins + 1]uint64

// tally counts the values of v, which are finite and within the edges. Two sets of counters
// keep neighbours that fall in one bin from waiting for each other.
func tally[T float](h *histogram, counts *[2]counters, v []T) {
	for ; len(v) >= 2; v = v[2:] {
		counts[0][h.bin(float64(v[0]))]++
		counts[1][h.bin(float64(v[1]))]++
	}
	for _, x := range v {
		counts[0][h.bin(float64(x))]++
	}
}

// bin is where x belongs. The guess is hardly ever wrong, and then by one; no edge is less
// than the first value, and the last one is infinite.
func (h *histogram) bin(x float64) uint8 {
	i := uint8(int64((x - h.lo) * h.scale))
	for x < h.edges[i] {
		i--
	}
	for x >= h.edges[int(i)+1] {
		i++
	}
	return i
}

// addTo adds the counts to those of each bin.
func (h *histogram) addTo(bins []uint64, counts *[2]counters) {
	for i := range h.bins + 1 {
		bins[min(i, h.bins-1)] += counts[0][i] + counts[1][i]
	}
}
