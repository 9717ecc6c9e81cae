package survey

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/tensormap/tensormap/internal/moments"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// StatsOptions tune Stats. Nil and zero fields mean the defaults.
type StatsOptions struct {
	Options
	// Bins is the number of bins of every histogram of equal bins: at most 255. 0 makes none, which saves the
	// second pass over the values.
	Bins int
	// BySigma asks for histograms by σ. They need no pass of their own.
	BySigma bool
	// Sample, if set, says which elements of a tensor are read: at every one of places a run of length each, at most 65,536. Runs
	// ascend, do not overlap, and begin and end with blocks. A tensor without places is read as a whole.
	// Stats calls Sample once for each tensor with values, before it reads any.
	Sample func(t loader.Tensor) (places []uint64, each uint64)
}

// TensorStats describes the values of one tensor. NaNs and infinities are counted, and left out
// of everything else. Values are float32, but float64 for F64, I32, U32, I64 and U64 without
// a scale.
type TensorStats struct {
	Tensor loader.Tensor
	// Err says why there is nothing more. The tensor is damaged, or its type has no values
	// ([loader.ErrUnsupported]).
	Err error
	// Sampled says that only elements of StatsOptions.Sample were read: Min, Max, MaxSigma and the counts are bounds then, and
	// the other figures estimates. ZeroRows is 0.
	Sampled bool

	Finite              uint64 // number of finite values
	Zeros               uint64 // among them, of either sign
	NaN, PosInf, NegInf uint64
	// ZeroRows counts the rows whose finite values are all 0. A row is a position of the first dimension here. ZeroRows is 0 for
	// tensors of one row, or of one dimension.
	ZeroRows uint64
	Min, Max float64 // NaN if no value is finite, as are Mean, Std and Percentiles
	Mean     float64
	// Std is the standard deviation of the population: the divisor is Finite, not one less. It is
	// infinite for values of F64 beyond 1e150.
	Std float64
	// Percentiles are the values at Percents, interpolated as NumPy does. They are exact for BF16, and for tensors of at most
	// 2,048 float32s. Others are off by at most 0.1 % of Finite in rank, and also by 2⁻¹⁹ of the distance from zero. Percentiles of
	// subnormals may be off by 2⁻¹⁴⁵. If the mean is more than 4 Std from zero, the distance from the mean counts instead. Among values that
	// float32 cannot hold they are NaN, but for Min and Max.
	Percentiles [len(Percents)]float64
	// MaxSigma is the largest distance from the mean, in units of Std, and MaxSigmaAt the first element that has it, as a
	// row-major number: see Coordinates. MaxSigma is NaN if Std is 0 or no number.
	MaxSigma   float64
	MaxSigmaAt uint64
	// Kurtosis is the fourth central moment divided by Std to the fourth, less 3: 0 for Gaussian values. It is NaN if
	// MaxSigma is, or for values of F64 beyond 1e77.
	Kurtosis float64
	// BySigma counts the finite values in SigmaBins bins whose edges SigmaEdge has, around the mean. If
	// Percentiles are not exact, a value near an edge may be counted in the neighbouring bin. BySigma is nil if it was not asked for, or
	// if MaxSigma is NaN.
	BySigma []uint64
	// Histogram counts the finite values in bins of equal width from Min to Max. Each bin has its
	// lower edge, the last one Max too. There is one bin if Min is Max, and none if Bins is 0 or no
	// value is finite.
	Histogram []uint64
}

// Stats reads the values of m's tensors, and calls deliver with the figures of each tensor, one call at a time. Tensors come in the
// order of the file. A nil opts means the defaults.
//
// A tensor that cannot be read has its error in TensorStats.Err. Stats fails if a call of deliver fails, or if ctx ends. It also fails if
// m is closed, or a file has changed since it was opened (see [loader.Model.Changed]).
//
// Memory hardly grows with the sizes of tensors: by some hundred bytes for a million elements. Results do not depend on the
// number of workers: sums are made of fixed batches and merged in a fixed order.
//
// One pass finds all figures but Histogram, whose bins depend on the range: a second pass counts it. For Percentiles and BySigma,
// tensors whose mean is more than 4 Std from zero are read once more. For Percentiles alone, a tensor of few different values is read
// again: one with more than 0.1 % of its values within 1/128 of a single value. BF16 tensors are read once. All passes over one tensor come
// before the next tensor, and so find small tensors in the page cache.
func Stats(ctx context.Context, m *loader.Model, opts *StatsOptions, deliver func(*TensorStats) error) error {
	if opts == nil {
		opts = &StatsOptions{}
	}
	list := opts.tensors(m)
	samples := map[int]sample{}   // by index in list
	bytes := func(i int) uint64 { // stored bytes that are read, which count twice if histograms need a second pass
		t, n := list[i], list[i].RawBytes()
		if checkValues(t) != nil {
			return 0
		}
		if opts.Sample != nil {
			places, each := opts.Sample(t)
			samples[i] = sample{places, each}
		}
		if s := samples[i]; len(s.places) > 0 && s.check(t) == nil {
			n = uint64(float64(n) * float64(uint64(len(s.places))*s.each) / float64(t.Elements()))
		}
		if opts.Bins > 0 {
			n *= 2
		}
		return n
	}
	return run(ctx, &opts.Options, len(list), bytes, func(ctx context.Context, j *job, i int) (*TensorStats, error) {
		s := &TensorStats{Tensor: list[i]}
		if err := s.fill(ctx, j, m, samples[i], opts); err != nil {
			return &TensorStats{Tensor: s.Tensor, Err: err}, nil // other tensors go on
		}
		return s, nil
	}, deliver, m)
}

// sample is what StatsOptions.Sample returns: runs of consecutive elements to read. Without runs all elements are read.
type sample struct {
	places []uint64 // the first element of each run
	each   uint64   // elements of a run
}

// check returns an error that wraps loader.ErrRange if a run begins before the previous one ends, is longer than chunk, or is not within x.
func (s sample) check(x loader.Tensor) error {
	end := uint64(0) // of the previous run
	for _, first := range s.places {
		if first < end || s.each > chunk || !layout.Within(first, s.each, x.Elements()) {
			return fmt.Errorf("%w: a sample of %d elements from element %d, after element %d of %d", loader.ErrRange, s.each, first, end, x.Elements())
		}
		end = first + s.each
	}
	return nil
}

// wrapInTensor returns err with the file and the name of the tensor x of m.
func wrapInTensor(m *loader.Model, x loader.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", m.Files()[x.File()].Path, x.Name(), err)
}

// statsTask finds the figures of one tensor in several passes. The first one sums values up, and counts them by code: the upper 16 bits
// of a float32. Others follow where they are needed.
type statsTask[T float] struct {
	job    *job
	model  *loader.Model
	leased *leasedTensor
	sample sample
	read   readFunc[T]

	sum      summary
	zeroRows *zeroRows
	counted  []codeCount // counts of all values: of the first pass, then replaced or refined by later ones
	center   float64     // counted has distances from it
}

// fill sets all fields of s but Err, from the values that sample selects. It takes a lease of the tensor meanwhile. It fails if the
// tensor has no values, or for a wrong sample. It also fails if reading does, if the work is canceled, or if a pass contradicts the
// first one.
func (s *TensorStats) fill(ctx context.Context, j *job, m *loader.Model, sample sample, opts *StatsOptions) error {
	if err := checkValues(s.Tensor); err != nil {
		return err
	}
	if err := sample.check(s.Tensor); err != nil {
		return wrapInTensor(m, s.Tensor, err)
	}
	leased, err := leaseTensor(ctx, m, s.Tensor)
	if err != nil {
		return err
	}
	defer leased.lease.Release()
	if leased.isWide {
		return (&statsTask[float64]{job: j, model: m, leased: &leased, sample: sample, read: (*reader).values64}).fill(ctx, s, opts)
	}
	return (&statsTask[float32]{job: j, model: m, leased: &leased, sample: sample, read: (*reader).values32}).fill(ctx, s, opts)
}

// fill sets all fields of s but Err, in as many passes as they need.
func (t *statsTask[T]) fill(ctx context.Context, s *TensorStats, opts *StatsOptions) (err error) {
	t.sum, t.zeroRows = newSummary(), newZeroRows(s.Tensor.Shape())
	if s.Sampled = len(t.sample.places) > 0; s.Sampled {
		t.zeroRows = newZeroRows(nil) // counts no rows
	}
	if err := t.sumUp(ctx); err != nil {
		return err
	}
	if std := t.sum.std(); std > 0 && math.Abs(t.sum.mean) > 4*std && !math.IsInf(std, 0) && !t.isBF16() && !t.hasFew() {
		t.center = t.sum.mean
		if t.counted, err = t.recount(ctx, nil); err != nil {
			return err
		}
	}
	all, counted := levels(t.counted, t.center, &t.sum)
	if codes := crowded(all, t.sum.n); len(codes) > 0 {
		cells, err := t.recount(ctx, codes)
		if err != nil {
			return err
		}
		t.counted = refine(t.counted, codes, cells)
		all, counted = levels(t.counted, t.center, &t.sum)
	}
	if t.sum.n > 0 && opts.Bins > 0 {
		if s.Histogram, err = t.countBins(ctx, min(opts.Bins, maxBins)); err != nil {
			return err
		}
	}
	if counted != t.sum.n {
		return t.contradicts()
	}
	s.ZeroRows = t.zeroRows.count
	t.setFigures(s, all, opts.BySigma)
	return nil
}

// contradicts returns the error that a later pass over the values contradicts the first.
func (t *statsTask[T]) contradicts() error {
	return wrapInTensor(t.model, t.leased.Tensor, fmt.Errorf("%w: its values were others a moment ago", mmapio.ErrChanged))
}

// batches returns the number of batches of each pass. A sample is read as a single batch.
func (t *statsTask[T]) batches() uint64 {
	if len(t.sample.places) > 0 {
		return 1
	}
	return batchCount(t.leased.Elements())
}

// chunksOf yields the first element and the length of every chunk of a batch. A sample is a single batch, so that batch does not matter.
// The chunks of a sample are its runs. A run has t.sample.each elements, and begins at an element of t.sample.places.
func (t *statsTask[T]) chunksOf(batch uint64) iter.Seq2[uint64, uint64] {
	if len(t.sample.places) == 0 {
		return chunks(batch, t.leased.Elements())
	}
	return func(yield func(first, n uint64) bool) {
		for _, first := range t.sample.places {
			if !yield(first, t.sample.each) {
				return
			}
		}
	}
}

// isBF16 reports whether the tensor is stored as BF16s, and not logical. A code then stands for one value.
func (t *statsTask[T]) isBF16() bool {
	return t.leased.Scheme() == nil && t.leased.DType() == layout.BF16
}

// hasFew reports whether the tensor has at most maxSorted values, which float32 does not round, and all of them are read. They are one chunk,
// which countEach counts exactly.
func (t *statsTask[T]) hasFew() bool {
	return !t.leased.isWide && t.leased.Elements() <= maxSorted && len(t.sample.places) == 0
}

// count calls do for all batches, with an empty table in which do counts values. It returns the sums of all tables. It fails if a call of
// do does.
func (t *statsTask[T]) count(do func(w *worker, counts *table[uint32], batch uint64) error) ([]codeCount, error) {
	sum := tables.Get().(*table[uint64])
	var mu sync.Mutex
	err := t.job.eachBatch(t.batches(), func(w *worker, batch uint64) error {
		if w.counts == nil {
			w.counts = new(table[uint32])
		}
		err := do(w, w.counts, batch)
		mu.Lock()
		defer mu.Unlock()
		w.counts.moveTo(sum) // also after an error: it empties the worker's table
		return err
	})
	list := sum.takeCounts()
	tables.Put(sum)
	return list, err
}

// sumUp sets t.sum and t.counted: it sums all values up, and counts them by code. It sorts and counts few values instead: see hasFew. It also
// adds the values to t.zeroRows. It merges the sums of batches in the order of batches, since float64 sums depend on the order. It fails if
// reading does, or if the work is canceled.
func (t *statsTask[T]) sumUp(ctx context.Context) (err error) {
	sums := make([]summary, t.batches())
	sumBatch := func(w *worker, counts *table[uint32], batch uint64) error {
		sum := newSummary()
		codes := (*moments.Codes)(counts)
		if t.leased.isWide {
			codes = nil // moments.Codes count float32s
		}
		err := t.eachChunk(ctx, w, batch, func(v []T, first uint64) {
			measure(&sum, v, first, codes)
			addRun(t.zeroRows, v, first)
			switch {
			case counts == nil:
				t.counted = countEach(v) // the only chunk
			case t.leased.isWide:
				countDistances(counts, nil, v, 0)
			}
		})
		sums[batch] = sum
		return err
	}
	if t.hasFew() {
		err = t.job.eachBatch(t.batches(), func(w *worker, batch uint64) error { return sumBatch(w, nil, batch) })
	} else {
		t.counted, err = t.count(sumBatch)
		for i := range t.counted {
			t.counted[i].isValue = t.isBF16() // all bits of a BF16 are its code
		}
	}
	for _, sum := range sums {
		t.sum.merge(sum)
	}
	return err
}

// recount counts the distances of all values from t.center: by code or, if codes are given, the values with these codes by cell. It fails if
// reading does, or if the work is canceled.
func (t *statsTask[T]) recount(ctx context.Context, codes []uint16) ([]codeCount, error) {
	return t.count(func(w *worker, counts *table[uint32], batch uint64) error {
		return t.eachChunk(ctx, w, batch, func(v []T, _ uint64) { countDistances(counts, codes, v, t.center) })
	})
}

// countBins returns how many finite values lie in each bin. There are bins of equal width, from the least value to the greatest, in the given
// number. countBins fails if reading does, or if the work is canceled. It also fails if the number of finite values differs from the number
// in the first pass.
func (t *statsTask[T]) countBins(ctx context.Context, bins int) ([]uint64, error) {
	h := newHistogram(t.sum.min, t.sum.max, bins)
	all := make([]uint64, len(h.edges)-1)
	var mu sync.Mutex // of all
	total := uint64(0)
	err := t.job.eachBatch(t.batches(), func(w *worker, batch uint64) error {
		counts := make([]uint64, len(all))
		err := t.eachChunk(ctx, w, batch, func(v []T, _ uint64) { countInBins(h, counts, v) })
		mu.Lock()
		defer mu.Unlock()
		for bin, n := range counts {
			all[bin] += n
			total += n
		}
		return err
	})
	if err == nil && total != t.sum.n {
		return nil, t.contradicts()
	}
	return all, err
}

// eachChunk calls do for every chunk of a batch: v has the chunk's values, and first is the number of the chunk's first element. It fails if
// a read fails, or if the work is canceled.
func (t *statsTask[T]) eachChunk(ctx context.Context, w *worker, batch uint64, do func(v []T, first uint64)) error {
	for first, n := range t.chunksOf(batch) {
		v, err := t.read(&w.readerA, t.leased, first, n)
		if err != nil {
			return err
		}
		do(v, first)
		if err := t.job.progress(ctx, t.leased.bytesOf(n)); err != nil {
			return err
		}
	}
	return nil
}

// chunks yields the first element and the length of every chunk of batch p. The tensor has this number of elements; the last chunk may
// be shorter.
func chunks(p, elements uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(first, n uint64) bool) {
		end := min((p+1)*batchElements, elements)
		for first := p * batchElements; first < end; first += chunk {
			if !yield(first, min(chunk, end-first)) {
				return
			}
		}
	}
}

// setFigures sets the fields of s that follow from t.sum and from all, the counted values. If no value is finite, it sets NaN. If Std is 0,
// NaN or infinite, it sets NaN in MaxSigma and Kurtosis, and no BySigma. A minimum or maximum of -0 becomes +0: its sign would depend on
// the order of the sums.
func (t *statsTask[T]) setFigures(s *TensorStats, all []level, bySigma bool) {
	m, nan := &t.sum, math.NaN()
	s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf = m.n, m.zeros, m.nan, m.posInf, m.negInf
	s.Min, s.Max, s.Mean, s.Std, s.MaxSigma, s.Kurtosis = nan, nan, nan, nan, nan, nan
	for i := range s.Percentiles {
		s.Percentiles[i] = nan
	}
	if s.Finite == 0 {
		return
	}
	s.Min, s.Max, s.Mean, s.Std = m.min+0, m.max+0, m.mean, m.std()
	for i, percent := range Percents {
		s.Percentiles[i] = quantile(all, s.Finite, percent/100)
	}
	if !(s.Std > 0) || math.IsInf(s.Std, 0) {
		return
	}
	above, below := (s.Max-s.Mean)/s.Std, (s.Mean-s.Min)/s.Std
	s.MaxSigma, s.MaxSigmaAt = above, m.maxAt
	if below > above || (below == above && m.minAt < m.maxAt) { // the first of two equally far
		s.MaxSigma, s.MaxSigmaAt = below, m.minAt
	}
	s.Kurtosis = m.kurtosis()
	if bySigma {
		s.BySigma = sigmaHistogram(all, s.Mean, s.Std)
	}
}

// Shown returns s as package explore and the command show it. It returns s itself if it has an Err, or if its values stand for real
// numbers. For integers without a scale or scheme, such as ids, it returns a copy with NaN in Mean, Std, MaxSigma, Kurtosis and
// Percentiles. The copy's BySigma is nil, and its ZeroRows 0.
func (s *TensorStats) Shown() *TensorStats {
	if s.Err != nil || isReal(s.Tensor) {
		return s
	}
	nan := math.NaN()
	shown := *s
	shown.Mean, shown.Std, shown.MaxSigma, shown.Kurtosis, shown.BySigma, shown.ZeroRows = nan, nan, nan, nan, nil, 0
	for i := range shown.Percentiles {
		shown.Percentiles[i] = nan
	}
	return &shown
}

// Coordinates returns the index in each dimension of the element with this row-major number. It panics if a dimension of shape is 0.
func Coordinates(number uint64, shape []int) []uint64 {
	at := make([]uint64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = number % uint64(shape[d])
		number /= uint64(shape[d])
	}
	return at
}
