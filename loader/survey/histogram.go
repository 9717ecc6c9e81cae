package survey

import "math"

// maxBins is the maximum of StatsOptions.Bins.
const maxBins = 255

// histogram has bins of equal width between the least and the greatest value. A value on an edge belongs to the bin above, the
// greatest to the last. (As NumPy has it.)
type histogram struct {
	edges []float64 // of the bins, in ascending order: one more than there are bins
	scale float64   // bins per unit of a value, or 0 if it overflows
}

// newHistogram returns the histogram of this number of bins of equal width from lo to hi. If lo equals hi, it has a single bin. If hi−lo
// is too large for float64, each edge is computed from shares of lo and hi. The conversions to float64 keep machines from fusing
// operations.
func newHistogram(lo, hi float64, bins int) *histogram {
	if lo == hi {
		bins = 1
	}
	n := float64(bins)
	h := &histogram{edges: make([]float64, bins+1), scale: n / (hi - lo)}
	if math.IsInf(h.scale, 0) {
		h.scale = 0 // hi-lo is 0 or tiny: countInBins starts at the first bin, and finds the right one by its edges
	}
	width := (hi - lo) / n
	for i := range h.edges {
		h.edges[i] = lo + float64(width*float64(i))
		if math.IsInf(width, 0) { // hi-lo is no float64
			share := float64(i) / n
			h.edges[i] = float64(lo*(1-share)) + float64(hi*share)
		}
	}
	h.edges[bins] = hi
	return h
}

// countInBins adds the number of values of v in each bin to counts[bin]. It first guesses a value's bin by multiplication, and then
// corrects that by the edges. It leaves out NaN, and values beyond the first or last edge.
func countInBins[T float](h *histogram, counts []uint64, v []T) {
	edges, scale := h.edges, h.scale
	lastBin := len(edges) - 2
	lo, hi := edges[0], edges[lastBin+1]
	for _, value := range v {
		x := float64(value)
		if !(lo <= x && x <= hi) {
			continue
		}
		bin := max(0, min(int((x-lo)*scale), lastBin)) // rounding may put it next to the right one
		for x < edges[bin] {
			bin--
		}
		for bin < lastBin && x >= edges[bin+1] {
			bin++
		}
		counts[bin]++
	}
}
