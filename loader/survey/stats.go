package survey

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

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

// TensorStats describes the values of one tensor. NaNs and infinities are counted, and left out
// of everything else. Values are float32, but float64 for F64, I32, U32, I64 and U64 without
// a scale.
type TensorStats struct {
	Tensor loader.Tensor
	// Err says why there is nothing more. The tensor is damaged, or its type has no values
	// ([loader.ErrUnsupported]).
	Err error

	Finite              uint64 // number of finite values
	Zeros               uint64 // among them, of either sign
	NaN, PosInf, NegInf uint64
	Min, Max            float64 // these and the next are NaN if no value is finite
	Mean                float64
	// Std is the standard deviation of the population: the divisor is Finite, not one less. It
	// is infinite if float64s lie beyond 1e150.
	Std float64
	// Histogram counts the finite values in bins of equal width from Min to Max. Each bin has
	// its lower edge, the last one Max too. There is one bin if Min is Max, and none if no
	// value is finite.
	Histogram []uint64
}

// Stats goes through the values of m's tensors, and hands the results to each in the order of
// the file. Calls of each do not overlap. Its first error ends the work and is returned.
//
// A tensor that cannot be read has an error of its own. Stats fails if ctx ends, if m is closed,
// or if a file has changed since it was opened (see [loader.Model.Changed]).
//
// Memory does not grow with the number of tensors or their sizes. Results do not depend on the
// number of workers: sums are made of fixed parts and merged in a fixed order.
//
// Histograms take a second pass, since their bins depend on the range. It follows the first
// tensor by tensor, and so finds small tensors in the page cache.
func Stats(ctx context.Context, m *loader.Model, opts *StatsOptions, each func(*TensorStats) error) error {
	if opts == nil {
		opts = &StatsOptions{}
	}
	return run(ctx, &opts.Options, each, func(yield func(uint64, task[TensorStats]) bool) {
		number := uint64(0)
		for x := range opts.tensors(m) {
			t := &statsTask{model: m, bins: max(0, min(opts.Bins, maxBins)), sum: newSummary()}
			t.stats = &TensorStats{Tensor: x, Err: checkValues(x)}
			if !yield(number, t) {
				return
			}
			number++
		}
	}, m)
}

// statsTask summarizes one tensor in a first phase, and makes its histogram in a second.
type statsTask struct {
	model   *loader.Model
	subject subject
	stats   *TensorStats
	bins    int
	phase   int

	inOrder sequence[summary] // of the parts, which are merged into sum in their order
	sum     summary

	histogram *histogram
	mu        sync.Mutex // of stats.Histogram
}

// weight returns the tensor's stored bytes, twice if histograms need a second pass, or 0 if it has no values.
func (t *statsTask) weight() uint64 {
	n := t.stats.Tensor.RawBytes()
	switch {
	case checkValues(t.stats.Tensor) != nil:
		return 0
	case t.bins > 0: // a second pass
		return 2 * n
	}
	return n
}

// begin begins the next of two phases, and returns the number of its parts, or 0 after the last: first the summary,
// then the histogram, if one is wanted and some values are finite.
func (t *statsTask) begin(ctx context.Context) uint64 {
	t.phase++
	switch t.phase {
	case 1:
		if t.stats.Err != nil {
			return 0
		}
		t.subject, t.stats.Err = newSubject(ctx, t.model, t.stats.Tensor)
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

// do summarizes the values of one part, the part-th partElements elements, or counts them in the histogram if the
// second phase has begun. Summaries of parts are merged in the order of parts: float64 sums depend on it.
func (t *statsTask) do(w *worker, part uint64) error {
	if t.histogram != nil {
		return t.tally(w, part)
	}
	sum := newSummary()
	err := t.eachChunk(w, part, func(v []float32) { measure(&sum, v) }, func(v []float64) { measure(&sum, v) })
	t.inOrder.add(part, sum, t.sum.merge)
	return err
}

// tally counts the finite values of a part, and adds the counts to the tensor's histogram.
func (t *statsTask) tally(w *worker, part uint64) error {
	counts := &w.counts
	*counts = counters{}
	err := t.eachChunk(w, part,
		func(v []float32) { tally(t.histogram, counts, finite(&t.sum, v)) },
		func(v []float64) { tally(t.histogram, counts, finite(&t.sum, v)) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.histogram.addTo(t.stats.Histogram, counts)
	return err
}

// eachChunk passes the values of part p, chunk by chunk, to narrow as float32s, or to wide as float64s if float32 would
// round them. It fails if a read fails, or if the work is canceled.
func (t *statsTask) eachChunk(w *worker, p uint64, narrow func([]float32), wide func([]float64)) error {
	s := &t.subject
	for first, n := range chunks(p, s.Elements()) {
		var err error
		if s.isWide {
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
		if err := w.progress(s.bytesOf(n)); err != nil {
			return err
		}
	}
	return nil
}

// chunks yields first element and length of every chunk of part p, in a tensor of that many elements.
func chunks(p, elements uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(first, n uint64) bool) {
		end := min((p+1)*partElements, elements)
		for first := p * partElements; first < end; first += chunk {
			if !yield(first, min(chunk, end-first)) {
				return
			}
		}
	}
}

// checkUnchanged returns an error if the histogram has another number of values than the first pass counted.
func (t *statsTask) checkUnchanged() error {
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

// end releases the tensor, and returns its statistics, or only the error if a part failed.
func (t *statsTask) end(err error) (*TensorStats, error) {
	t.subject.release()
	if t.histogram != nil {
		histograms.Put(t.histogram)
	}
	s := t.stats
	if s.Err = cmp.Or(s.Err, err); s.Err == nil && t.histogram != nil {
		s.Err = t.checkUnchanged()
	}
	if s.Err != nil {
		return &TensorStats{Tensor: s.Tensor, Err: s.Err}, nil
	}
	t.sum.copyTo(s)
	return s, nil
}

// copyTo writes the summary to s. A minimum or maximum of -0 becomes +0: its sign would depend on the order of the
// sums.
func (m *summary) copyTo(s *TensorStats) {
	s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf = m.n, m.zeros, m.nan, m.posInf, m.negInf
	s.Min, s.Max, s.Mean, s.Std = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if m.n > 0 {
		s.Min, s.Max, s.Mean, s.Std = m.min+0, m.max+0, m.mean, math.Sqrt(m.m2/float64(m.n))
	}
}
