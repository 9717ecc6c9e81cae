package explore

import "math/rand/v2"

// Bounds of samples. A sample has blocks of values at places that are random, but the same each time: one place in each of
// as many parts of the tensor as there are places, so that rows are met evenly. A fixed stride would meet few columns.
// At each place of a large tensor lie several blocks side by side, as a system that reads a page reads those around it.
const (
	sampleFrom  = 2 << 30 // stored bytes of a model that is sampled first
	sampleOneOf = 64
	sampleBlock = 256  // values
	minBlocks   = 256  // of a tensor; smaller tensors are read as a whole
	maxBlocks   = 4096 // of a tensor
	maxRun      = 16   // blocks at one place
)

// sampleSize returns at how many places a tensor of n values is read, and how many values at each. It returns 0 places if
// all values are read.
func sampleSize(n uint64) (places, each uint64) {
	if n <= minBlocks*sampleBlock {
		return 0, 0
	}
	blocks := min(max(n/(sampleOneOf*sampleBlock), minBlocks), maxBlocks)
	run := min(max(n>>20, 1), maxRun)
	return blocks / run, run * sampleBlock
}

// isSampled reports whether the figures of s come from a sample first.
func (s *shown) isSampled() bool { return s.stored >= sampleFrom }

// sampleShare returns the share of values that a sample of s has.
func (s *shown) sampleShare() float64 {
	read := uint64(0)
	for i := range s.rows {
		n := s.rows[i].Elements
		if places, each := sampleSize(n); places > 0 {
			n = places * each
		}
		read += n
	}
	return float64(read) / float64(max(s.answer.Parameters, 1))
}

// samplePlaces returns the places of a sample of n values, ascending, and how many values each has. They lie apart.
func samplePlaces(n uint64) (places []uint64, each uint64) {
	count, size := sampleSize(n)
	random := rand.New(rand.NewPCG(n, count)) // the same for tensors of a size, so that layers can be compared
	places = make([]uint64, count)
	blocks, run := n/sampleBlock, size/sampleBlock
	for i := range places {
		from, to := blocks*uint64(i)/count, blocks*uint64(i+1)/count-run
		places[i] = sampleBlock * (from + random.Uint64N(to-from+1))
	}
	return places, size
}
