package survey

import "math"

// histogram counts values in bins of equal width between the least and the greatest; a value
// on an edge belongs to the bin above, the greatest to the last. (As NumPy has it.)
type histogram struct {
	edges []float64 // one more than there are bins
	scale float64   // bins to a unit
}

// newHistogram has a single bin where all values are the same.
func newHistogram(lo, hi float64, bins int) *histogram {
	if lo == hi {
		bins = 1
	}
	h := &histogram{edges: make([]float64, bins+1)}
	n := float64(bins)
	width := hi/n - lo/n // which cannot overflow, or else with fewer roundings
	if w := (hi - lo) / n; !math.IsInf(w, 0) {
		width = w
	}
	for i := range h.edges {
		h.edges[i] = lo + float64(width*float64(i))
	}
	h.edges[0], h.edges[bins] = lo, hi
	if h.scale = n / (hi - lo); math.IsInf(h.scale, 0) {
		h.scale = 0 // of a single bin, or of one beyond arithmetic: the edges find the place
	}
	return h
}

func (h *histogram) bins() int { return len(h.edges) - 1 }

// tally counts the finite values of v in counts, one for each bin. Two sets of counters keep
// neighbours that fall in one bin from waiting for each other.
func tally[T float](h *histogram, counts []uint64, v []T) {
	odd := make([]uint64, len(counts))
	for ; len(v) >= 2; v = v[2:] {
		x0, x1 := float64(v[0]), float64(v[1])
		i0, i1 := h.bin(x0), h.bin(x1)
		counts[i0] += one(x0-x0 == 0)
		odd[i1] += one(x1-x1 == 0)
	}
	for _, x := range v {
		f := float64(x)
		counts[h.bin(f)] += one(f-f == 0)
	}
	for i, n := range odd {
		counts[i] += n
	}
}

// bin is where x belongs, if it is finite. Its guess is hardly ever wrong, and then by one.
func (h *histogram) bin(x float64) int {
	edges := h.edges
	last := len(edges) - 2
	i := min(uint(int64((x-edges[0])*h.scale)), uint(last))
	for i > 0 && x < edges[i] {
		i--
	}
	for i < uint(last) && x >= edges[i+1] {
		i++
	}
	return int(i)
}
