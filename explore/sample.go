package explore

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// Bounds of samples. A sample has blocks of values at places that are random, but the same each time: one place in each of
// as many parts of the tensor as there are places, so that rows are met evenly. A fixed stride would meet few columns.
// At each place of a large tensor lie several blocks side by side, as a system that reads a page reads those around it.
const (
	sampleFrom     = 2 << 30 // stored bytes of a model that is sampled first
	sampleOneOf    = 64
	sampleBlock    = 256      // values
	minBlocks      = 256      // of a tensor; smaller tensors are read as a whole
	maxBlocks      = 4096     // of a tensor
	maxRun         = 16       // blocks at one place
	percentileFrom = 64 << 10 // values of a sample, at most, that percentiles are taken from
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
func (s *shown) isSampled() bool {
	stored := uint64(0)
	for i := range s.rows {
		stored += s.rows[i].Bytes
	}
	return stored >= sampleFrom
}

// sampleShare returns the share of values that a sample of s has.
func (s *shown) sampleShare() float64 {
	read, all := uint64(0), uint64(0)
	for i := range s.rows {
		n := s.rows[i].Elements
		all += n
		if places, each := sampleSize(n); places > 0 {
			n = places * each
		}
		read += n
	}
	return float64(read) / float64(max(all, 1))
}

// sample reads small tensors of s as a whole and a sample of the others, and hands their figures to each. Calls of each do
// not overlap. It fails as survey.Stats does, but for tensors that have an error of their own.
func (h *handler) sample(ctx context.Context, s *shown, l *loader.Lease, each func(stat TensorStat, values uint64)) error {
	isSmall := func(name string) bool {
		places, _ := sampleSize(s.rows[s.numbers[name]].Elements)
		return places == 0
	}
	err := h.readWhole(ctx, s, isSmall, each)
	if err != nil {
		return err
	}
	var large []int
	for n := range s.rows {
		if !isSmall(s.rows[n].Name) {
			large = append(large, n)
		}
	}
	var mu sync.Mutex // of each
	return parallel.Each(h.opts.Workers-1, parallel.Range(uint64(len(large))), func(items iter.Seq[uint64]) error {
		values, last := make([]float32, maxBlocks*sampleBlock), time.Now()
		for i := range items {
			if h.isPolite {
				last = pause(last)
			}
			number := large[i]
			t := l.Of(s.tensors[number])
			places, size := sampleSize(t.Elements())
			read := values[:places*size]
			figures := sampled(t, read)
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := figures.Err; errors.Is(err, loader.ErrClosed) {
				return err
			}
			stat := statOf(number, figures)
			stat.Sampled = stat.Error == ""
			func() {
				mu.Lock()
				defer mu.Unlock() // after a panic the others end too
				each(stat, uint64(len(read)))
			}()
		}
		return nil
	})
}

// sampled returns the figures of a sample of t, which it reads into values. Its error is in them, as in those of
// survey.Stats.
func sampled(t loader.Tensor, values []float32) *survey.TensorStats {
	s := &survey.TensorStats{Tensor: t}
	if s.Err = t.Problem(); s.Err != nil {
		return s
	}
	places, each := samplePlaces(t.Elements())
	for i, first := range places {
		if s.Err = t.DequantizeRange(values[i*each:][:each], first); s.Err != nil {
			return s
		}
	}
	summarize(s, values, func(i int) uint64 { return places[i/each] + uint64(i%each) })
	return s
}

// samplePlaces returns the places of a sample of n values, ascending, and how many values each has. They lie apart.
func samplePlaces(n uint64) (places []uint64, each int) {
	count, size := sampleSize(n)
	random := rand.New(rand.NewPCG(n, count)) // the same for tensors of a size, so that layers can be compared
	places = make([]uint64, count)
	blocks, run := n/sampleBlock, size/sampleBlock
	for i := range places {
		from, to := blocks*uint64(i)/count, blocks*uint64(i+1)/count-run
		places[i] = sampleBlock * (from + random.Uint64N(to-from+1))
	}
	return places, int(size)
}

// summarize fills the figures of values into s. The tensor has a value of a number at place. It changes values.
func summarize(s *survey.TensorStats, values []float32, place func(i int) uint64) {
	s.Min, s.Max, s.Mean, s.Std, s.MaxSigma, s.Kurtosis = math.Inf(1), math.Inf(-1), 0, 0, math.NaN(), math.NaN()
	for _, v := range values {
		switch x := float64(v); {
		case x != x:
			s.NaN++
		case math.IsInf(x, 1):
			s.PosInf++
		case math.IsInf(x, -1):
			s.NegInf++
		default:
			s.Finite++
			s.Mean += x
			s.Min, s.Max = min(s.Min, x), max(s.Max, x)
			if x == 0 {
				s.Zeros++
			}
		}
	}
	s.Mean /= float64(s.Finite)
	if s.Finite == 0 {
		s.Min, s.Max, s.Std = math.NaN(), math.NaN(), math.NaN()
		for i := range s.Percentiles {
			s.Percentiles[i] = math.NaN()
		}
		return
	}
	var squares, fourths, farthest float64
	at := 0
	for i, v := range values {
		d := float64(v) - s.Mean
		if math.IsNaN(d) || math.IsInf(d, 0) {
			continue
		}
		squares += d * d
		fourths += d * d * d * d
		if d = math.Abs(d); d > farthest {
			farthest, at = d, i
		}
	}
	n := float64(s.Finite)
	s.Std = math.Sqrt(squares / n)
	if s.Std > 0 {
		s.MaxSigma, s.MaxSigmaAt = farthest/s.Std, place(at)
		s.Kurtosis = fourths/(n*s.Std*s.Std*s.Std*s.Std) - 3
	}
	s.Percentiles = percentilesOf(values)
}

// percentilesOf returns the percentiles of the finite values among evenly chosen blocks of a sample. It changes values.
func percentilesOf(values []float32) (percentiles [len(survey.Percents)]float64) {
	chosen := values[:0]
	step := (len(values) + percentileFrom - 1) / percentileFrom
	for block := 0; block < len(values)/sampleBlock; block += step {
		for _, v := range values[block*sampleBlock:][:sampleBlock] {
			if x := float64(v); !math.IsNaN(x) && !math.IsInf(x, 0) {
				chosen = append(chosen, v)
			}
		}
	}
	slices.Sort(chosen)
	for i, p := range survey.Percents {
		if len(chosen) == 0 {
			percentiles[i] = math.NaN()
			continue
		}
		rank := p / 100 * float64(len(chosen)-1)
		low := int(rank)
		high := min(low+1, len(chosen)-1)
		percentiles[i] = float64(chosen[low]) + (rank-float64(low))*(float64(chosen[high])-float64(chosen[low]))
	}
	return percentiles
}
