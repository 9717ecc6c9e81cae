package survey

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// StatsOptions tune Stats. Nil and zero fields mean the defaults.
type StatsOptions struct {
	Options
	// Bins is the number of bins of every histogram: at most 255. 0 makes none, which saves the
	// second pass over the values.
	Bins int
}

// TensorStats is what Stats finds out about one tensor. NaNs and infinities are counted, and
// left out of everything else. Values are those in float32, but of F64, I32, U32, I64 and U64
// without a scale in float64.
type TensorStats struct {
	Tensor loader.Tensor
	// Err is why there is nothing more: the tensor is damaged, or its type is one without
	// values ([loader.ErrUnsupported]).
	Err error

	Finite              uint64 // how many values are
	Zeros               uint64 // among them, of either sign
	NaN, PosInf, NegInf uint64
	Min, Max            float64 // these and the next are NaN where no value is finite
	Mean                float64
	// Std is the standard deviation of the population: squares are divided by Finite, not by one
	// less. It is infinite where those of float64s beyond 1e150 are.
	Std float64
	// Histogram counts the finite values in bins of equal width from Min to Max. Each bin has
	// its lower edge, the last one Max too. Where Min is Max there is but one bin, and none
	// where nothing is finite.
	Histogram []uint64
}

// Stats goes through the values of m's tensors, in the order of the file. A tensor that cannot
// be read has an error of its own, as have those that m is closed before; the error of the whole
// is that of ctx, or that m was closed to begin with, or that a file has changed since it was
// opened (mmapio.ErrChanged; see [loader.Model.Changed]).
// Memory does not grow with the tensors' sizes, and results do not depend on the number of
// workers: sums are made of fixed parts and merged in a fixed order.
//
// With histograms every tensor is read twice, since the bins are not known before its range
// is: the second time soon after the first, and so from the page cache where there is room.
func Stats(ctx context.Context, m *loader.Model, opts *StatsOptions) ([]TensorStats, error) {
	if opts == nil {
		opts = &StatsOptions{}
	}
	if err := m.Changed(); err != nil {
		return nil, err
	}
	stats := make([]TensorStats, 0, opts.most(m))
	for t := range m.Tensors() {
		if opts.selects(t.Name()) {
			stats = append(stats, TensorStats{Tensor: t, Err: valued(t)})
		}
	}
	bins := max(0, min(opts.Bins, maxBins))
	todo := each(len(stats), func(i int) uint64 { return statsWeight(&stats[i], bins) },
		func(i int) task { return &statsTask{model: m, stats: &stats[i], bins: bins, sum: newMoments()} })
	if err := run(ctx, &opts.Options, todo, m); err != nil {
		return nil, err
	}
	return stats, nil
}

// statsTask goes through one tensor: for the moments, and then for the histogram.
type statsTask struct {
	model   *loader.Model
	subject subject
	stats   *TensorStats
	bins    int
	phase   int

	sums sequence[moments]
	sum  moments

	histogram *histogram
	mu        sync.Mutex // of stats.Histogram
}

func (t *statsTask) weight() uint64 { return statsWeight(t.stats, t.bins) }

func statsWeight(s *TensorStats, bins int) uint64 {
	switch {
	case valued(s.Tensor) != nil:
		return 0
	case bins > 0: // a second pass
		return 2 * s.Tensor.RawBytes()
	}
	return s.Tensor.RawBytes()
}

func (t *statsTask) begin() uint64 {
	t.phase++
	switch t.phase {
	case 1:
		if t.stats.Err != nil {
			return 0
		}
		t.subject, t.stats.Err = newSubject(t.model, t.stats.Tensor)
		if t.stats.Err == nil {
			return parts(t.subject.Elements())
		}
	case 2:
		if t.bins > 0 && t.sum.n > 0 {
			t.histogram = newHistogram(t.sum.min, t.sum.max, t.bins)
			t.stats.Histogram = make([]uint64, t.histogram.bins)
			return parts(t.subject.Elements())
		}
	}
	return 0
}

func (t *statsTask) do(w *worker, part uint64) error {
	if t.histogram != nil {
		return t.tally(w, part)
	}
	sum := newMoments()
	err := t.eachChunk(w, part, func(v []float32) { measure(&sum, v) }, func(v []float64) { measure(&sum, v) })
	t.sums.add(part, sum, t.sum.merge)
	return err
}

func (t *statsTask) tally(w *worker, part uint64) error {
	counts := &w.counts
	*counts = [2]counters{}
	err := t.eachChunk(w, part,
		func(v []float32) { tally(t.histogram, counts, finite(&t.sum, v)) },
		func(v []float64) { tally(t.histogram, counts, finite(&t.sum, v)) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.histogram.addTo(t.stats.Histogram, counts)
	return err
}

// eachChunk calls one of the functions for all values of a part.
func (t *statsTask) eachChunk(w *worker, p uint64, narrow func([]float32), wide func([]float64)) error {
	s := &t.subject
	for first, n := range chunks(p, s.Elements()) {
		var err error
		if s.wide {
			var v []float64
			if v, err = w.a.values64(s, first, n); err == nil {
				wide(v)
			}
		} else {
			var v []float32
			if v, err = w.a.values32(s, first, n); err == nil {
				narrow(v)
			}
		}
		if err != nil {
			return err
		}
		if err := w.saw(bytesOf(s.DType(), n)); err != nil {
			return err
		}
	}
	return nil
}

// chunks are the first elements and the lengths of the chunks of part p.
func chunks(p, elements uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(first, n uint64) bool) {
		end := min((p+1)*part, elements)
		for first := p * part; first < end; first += chunk {
			if !yield(first, min(chunk, end-first)) {
				return
			}
		}
	}
}

// bytesOf is about what n elements are stored in.
func bytesOf(d layout.DType, n uint64) uint64 {
	_, size := d.Span(0, n)
	return size
}

// changed returns an error if the second pass met values that the first did not.
func (t *statsTask) changed() error {
	n := uint64(0)
	for _, count := range t.stats.Histogram {
		n += count
	}
	if n == t.sum.n {
		return nil
	}
	x := t.stats.Tensor
	return fmt.Errorf("%s: tensor %q: %w: its values were others a moment ago", t.model.Files()[x.File()].Path, x.Name(), mmapio.ErrChanged)
}

func (t *statsTask) end(err error) {
	t.subject.release()
	if t.histogram != nil {
		histograms.Put(t.histogram)
	}
	s := t.stats
	if s.Err == nil {
		s.Err = err
	}
	if s.Err == nil && t.histogram != nil {
		s.Err = t.changed()
	}
	if s.Err != nil {
		*s = TensorStats{Tensor: s.Tensor, Err: s.Err}
		return
	}
	m := &t.sum
	s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf = m.n, m.zeros, m.nan, m.posInf, m.negInf
	s.Min, s.Max, s.Mean, s.Std = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if m.n > 0 { // which of two zeros it is would depend on the order of the sums
		s.Min, s.Max, s.Mean, s.Std = m.min+0, m.max+0, m.mean, math.Sqrt(m.m2/float64(m.n))
	}
}
