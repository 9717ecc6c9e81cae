package survey

import (
	"cmp"
	"context"
	"encoding/binary"
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
	// 2,048 float32s. Others are off by at most 0.1 % of Finite in rank, and besides by 2⁻¹⁹ of the distance from zero. Those of
	// subnormals may be off by 2⁻¹⁴⁵. If the mean is more than 4 Std from zero, the distance from the mean counts instead. Among values that float32 cannot hold they are NaN, but for Min and Max.
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

// Stats reads the values of m's tensors, and calls each with the figures of every tensor, one call at a time. Tensors come in the
// order of the file. A nil opts means the defaults.
//
// A tensor that cannot be read has its error in TensorStats.Err. Stats fails if a call of each fails, or if ctx ends. It also fails if
// m is closed, or a file has changed since it was opened (see [loader.Model.Changed]).
//
// Memory does not grow with the number of tensors or their sizes. Results do not depend on the
// number of workers: sums are made of fixed parts and merged in a fixed order.
//
// One pass finds all figures but Histogram, whose bins depend on the range: a second pass counts it. For Percentiles and BySigma,
// tensors whose mean is more than 4 Std from zero are read once more. For Percentiles alone, a tensor of few different values is read
// again: one with more than 0.1 % of its values within 1/128 of a single value. BF16 tensors are read again up to
// the element of MaxSigmaAt. All passes over one tensor come before the next tensor, and so find small tensors in the page cache.
func Stats(ctx context.Context, m *loader.Model, opts *StatsOptions, each func(*TensorStats) error) error {
	if opts == nil {
		opts = &StatsOptions{}
	}
	return run(ctx, &opts.Options, each, func(yield func(task[TensorStats]) bool) {
		for x := range opts.tensors(m) {
			t := &statsTask{model: m, bins: max(0, min(opts.Bins, maxBins)), bySigma: opts.BySigma, sum: newSummary()}
			t.stats = &TensorStats{Tensor: x, Err: checkValues(x)}
			if opts.Sample != nil {
				places, each := opts.Sample(x)
				if err := checkSample(x, places, each); err == nil {
					t.places, t.perPlace = places, each
				} else {
					t.stats.Err = cmp.Or(t.stats.Err, wrapInTensor(m, x, err))
				}
			}
			if t.stats.Sampled = len(t.places) > 0; t.stats.Sampled {
				t.zeroRows = newZeroRows(nil) // counts no rows
			} else {
				t.zeroRows = newZeroRows(x.Shape())
			}
			if !yield(t) {
				return
			}
		}
	}, m)
}

// checkSample checks the runs of perPlace elements that begin at places. It returns an error that wraps loader.ErrRange if a run
// begins before the previous one ends, is longer than chunk, or is not within x.
func checkSample(x loader.Tensor, places []uint64, perPlace uint64) error {
	end := uint64(0) // of the previous run
	for _, first := range places {
		if first < end || perPlace > chunk || !layout.Within(first, perPlace, x.Elements()) {
			return fmt.Errorf("%w: a sample of %d elements from element %d, after element %d of %d", loader.ErrRange, perPlace, first, end, x.Elements())
		}
		end = first + perPlace
	}
	return nil
}

// wrapInTensor returns err with the file and the name of the tensor x of m.
func wrapInTensor(m *loader.Model, x loader.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", m.Files()[x.File()].Path, x.Name(), err)
}

// statsTask finds the figures of one tensor in phases. The first one sums values up, and counts them by code: the upper 16 bits of a
// float32. Others follow where they are needed.
type statsTask struct {
	model    *loader.Model
	leased   leasedTensor
	stats    *TensorStats
	bins     int
	bySigma  bool
	phase    phase
	places   []uint64 // of a sample: the first element of each run
	perPlace uint64   // elements in a run

	inOrder sequence[summary] // of the parts, which are merged into sum in their order
	sum     summary

	zeroRows *zeroRows

	mu      sync.Mutex     // of counts, latest, stats.Histogram, sum.minAt and sum.maxAt
	counts  *table[uint64] // of the current phase, if the tensor has several parts
	latest  []codeCount    // counts of the current phase, once it has ended or its only part is done
	counted []codeCount    // counts of all values: of the first phase, then replaced or refined by later ones
	center  float64        // counted has distances from it
	crowded []uint16       // codes whose cells the phase refining counts
	ranges  [][2]float64   // of each part of BF16s: the least and the greatest finite value

	ascending []level // of counted, once they are asked for

	histogram *histogram
}

// phase says what the parts of a statsTask do.
type phase int

const (
	unread    phase = iota
	summing         // values, and counts by code
	centering       // counts by code of distances from the mean
	refining        // counts by cell of the codes near percentiles
	placing         // the first elements that are min and max, of BF16s
	binning         // values in equal bins
	finished
)

// progressBytes returns the number of stored bytes that are read. For a sample that is its share of all, rounded down. If histograms need
// a second pass, the bytes count twice. It returns 0 if checkValues finds no values.
func (t *statsTask) progressBytes() uint64 {
	n := t.stats.Tensor.RawBytes()
	if t.stats.Sampled {
		n = uint64(float64(n) * float64(uint64(len(t.places))*t.perPlace) / float64(t.stats.Tensor.Elements()))
	}
	switch {
	case checkValues(t.stats.Tensor) != nil:
		return 0
	case t.bins > 0: // a second pass
		return 2 * n
	}
	return n
}

// begin ends the current phase, and advances t.phase to the next one that is needed. It returns the number of its parts, or 0 if no
// more phases are needed.
func (t *statsTask) begin(ctx context.Context) uint64 {
	t.endCounting()
	for t.phase++; t.phase < finished; t.phase++ {
		if t.prepare(ctx) {
			return t.parts()
		}
	}
	return 0
}

// parts returns the number of parts of each phase. A sample is read as a single part.
func (t *statsTask) parts() uint64 {
	if t.stats.Sampled {
		return 1
	}
	return partCount(t.leased.Elements())
}

// chunksOf yields the first element and the length of every chunk of a part. For a sample, which has one part, the chunks are its runs.
func (t *statsTask) chunksOf(part uint64) iter.Seq2[uint64, uint64] {
	if !t.stats.Sampled {
		return chunks(part, t.leased.Elements())
	}
	return func(yield func(first, n uint64) bool) {
		for _, first := range t.places {
			if !yield(first, t.perPlace) {
				return
			}
		}
	}
}

// prepare reports whether the current phase is needed, and allocates what its parts count into. In the first phase it also takes the
// lease. If the lease or the tensor's bytes fail, it sets t.stats.Err, and reports false.
func (t *statsTask) prepare(ctx context.Context) bool {
	if t.stats.Err != nil {
		return false
	}
	switch t.phase {
	case summing:
		t.leased, t.stats.Err = leaseTensor(ctx, t.model, t.stats.Tensor)
		if t.stats.Err == nil && t.leased.ZeroCopy() {
			t.leased.inPlace, t.stats.Err = t.leased.Bytes()
		}
		if t.stats.Err != nil || t.leased.Elements() == 0 {
			return false
		}
		t.ranges = make([][2]float64, t.parts())
	case centering:
		std := t.sum.std()
		isFarFromZero := std > 0 && math.Abs(t.sum.mean) > 4*std
		if !isFarFromZero || math.IsInf(std, 0) || t.isBF16() || t.hasFew() {
			return false
		}
		t.center = t.sum.mean
	case refining:
		if t.crowded = crowded(t.levels(), t.sum.n); len(t.crowded) == 0 {
			return false
		}
	case placing: // needs no table
		return t.isBF16() && t.sum.n > 0 && t.leased.Elements() > 0
	case binning:
		if t.bins == 0 || t.sum.n == 0 {
			return false
		}
		t.histogram = newHistogram(t.sum.min, t.sum.max, t.bins)
		t.stats.Histogram = make([]uint64, len(t.histogram.edges)-1)
		return true
	}
	if t.parts() > 1 { // a single part gives its own counts: see addCounts
		t.counts = tables.Get().(*table[uint64])
	}
	return true
}

// isBF16 reports whether the tensor is a stored one of BF16s. A code then stands for one value.
func (t *statsTask) isBF16() bool {
	return t.leased.Scheme() == nil && t.leased.DType() == layout.BF16
}

// hasFew reports whether the values are float32s, at most maxSorted, and no sample. They are one chunk, which countEach counts exactly.
func (t *statsTask) hasFew() bool {
	return !t.leased.isWide && t.leased.Elements() <= maxSorted && !t.stats.Sampled
}

// addCounts adds the counts c of a part to t.counts, and sets all of c to 0. If the tensor has one part, its counts become t.latest.
func (t *statsTask) addCounts(c *counter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.latest = c.counts.takeCounts()
	} else {
		c.moveTo(t.counts)
	}
}

// endCounting puts the counts of the current phase into t.counted. After the phase refining they replace the counts of t.crowded there.
// After summing or centering they replace all. After phases that do not count it does nothing. After the first phase of BF16s it also
// computes t.sum from the counts. There MaxUint64 in minAt and maxAt means "not found yet".
func (t *statsTask) endCounting() {
	if t.counts != nil {
		t.latest = t.counts.takeCounts()
		tables.Put(t.counts)
		t.counts = nil
	}
	switch t.phase {
	case summing, centering:
		t.counted = t.latest
	case refining:
		t.counted = refine(t.counted, t.crowded, t.latest)
	default:
		return
	}
	t.latest, t.ascending = nil, nil
	if t.phase == summing && t.isBF16() {
		t.sum = summarizeBF16s(t.counted)
		t.sum.minAt, t.sum.maxAt = math.MaxUint64, math.MaxUint64
	}
}

// do does part number part of the current phase, and adds what the part counts to the task's counts. In the first phase it also merges the
// part's summary into t.sum. It does that in the order of parts, since float64 sums depend on it. It fails if reading does, or if the work
// is canceled.
func (t *statsTask) do(w *worker, part uint64) error {
	switch {
	case t.phase == binning:
		return t.fillHistogram(w, part)
	case t.phase == placing:
		return t.findFarthest(w, part)
	case t.isBF16():
		return t.countBF16s(w, part)
	}
	sum, c := newSummary(), w.counter()
	if t.phase == refining {
		c.setSlots(t.crowded)
		defer c.clearSlots(t.crowded)
	}
	isSumming := t.phase == summing
	err := t.eachChunk(w, part, func(v []float32, first uint64) {
		if isSumming {
			if t.hasFew() {
				measure(&sum, v, first, nil)
				t.latest = countEach(v) // the only chunk
			} else {
				measure(&sum, v, first, (*moments.Codes)(&c.counts))
			}
			addFloats(t.zeroRows, v, first)
		} else {
			recount(c, v, t)
		}
	}, func(v []float64, first uint64) {
		if isSumming {
			measure(&sum, v, first, nil)
			addFloats(t.zeroRows, v, first)
		}
		recount(c, v, t)
	})
	if !t.hasFew() {
		t.addCounts(c)
	}
	if isSumming {
		t.inOrder.add(part, sum, t.sum.merge)
	}
	return err
}

// recount counts in c the distances of v from t.center by cell in the phase refining, and by code in others.
func recount[T float](c *counter, v []T, t *statsTask) {
	if t.phase == refining {
		countCells(c, v, t.center)
	} else {
		countCentered(c, v, t.center)
	}
}

// countBF16s counts the BF16s of a part by their bits: everything but the places of min and max follows from these counts. It fails if
// reading does, or if the work is canceled.
func (t *statsTask) countBF16s(w *worker, part uint64) error {
	c := w.counter()
	err := t.eachRun(w, part, func(first, n uint64) error {
		b, err := w.readerA.storedBytes(&t.leased, 2*first, 2*n)
		if err == nil {
			c.countBF16s(b)
			t.zeroRows.addBF16s(b, first)
		}
		return err
	})
	t.ranges[part] = c.rangeOfBF16s()
	t.addCounts(c) // also after an error: it empties the worker's counter
	return err
}

// findFarthest looks in a part of BF16s for the value farthest from the tensor's mean: the least, the greatest, or both if equally far. It
// lowers t.sum.minAt or t.sum.maxAt to the first such element of the part. It skips a part whose range lacks the value. It also skips
// chunks that follow an element which any part has found. It fails if reading does, or if the work is canceled.
func (t *statsTask) findFarthest(w *worker, part uint64) error {
	above, below := t.sum.max-t.sum.mean, t.sum.mean-t.sum.min
	r := t.ranges[part]
	hasGreatest := above >= below && r[1] == t.sum.max // the part has it, and no value is farther from the mean
	hasLeast := below >= above && r[0] == t.sum.min
	if !hasGreatest && !hasLeast {
		return nil
	}
	most, least := bitsOfBF16(t.sum.max), bitsOfBF16(t.sum.min)
	switch { // if one is farther, only that is looked for
	case above > below:
		least = most
	case below > above:
		most = least
	}
	return t.eachRun(w, part, func(first, n uint64) error {
		t.mu.Lock()
		isFound := min(t.sum.minAt, t.sum.maxAt) < first
		t.mu.Unlock()
		if isFound {
			return nil
		}
		b, err := w.readerA.storedBytes(&t.leased, 2*first, 2*n)
		if err != nil {
			return err
		}
		for at := first; len(b) >= 2; at, b = at+1, b[2:] {
			bits := binary.LittleEndian.Uint16(b)
			if bits == 1<<15 { // -0
				bits = 0
			}
			if bits == most || bits == least {
				t.mu.Lock()
				if valueOfBF16(bits) == t.sum.max {
					t.sum.maxAt = min(t.sum.maxAt, at)
				} else {
					t.sum.minAt = min(t.sum.minAt, at)
				}
				t.mu.Unlock()
				return nil
			}
		}
		return nil
	})
}

// fillHistogram counts the finite values of a part, and adds the counts to t.stats.Histogram. If reading fails, or the work is canceled,
// it adds what it has counted, and returns the error.
func (t *statsTask) fillHistogram(w *worker, part uint64) error {
	counts := make([]uint64, len(t.stats.Histogram))
	err := t.eachChunk(w, part,
		func(v []float32, _ uint64) { countInBins(t.histogram, counts, v) },
		func(v []float64, _ uint64) { countInBins(t.histogram, counts, v) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for bin, n := range counts {
		t.stats.Histogram[bin] += n
	}
	return err
}

// eachChunk calls narrow or wide with the values of every chunk of part p, and the number of its first element. It calls wide, with
// float64s, if float32 would round the tensor's values. It fails if a read fails, or if the work is canceled.
func (t *statsTask) eachChunk(w *worker, p uint64, narrow func(v []float32, first uint64), wide func(v []float64, first uint64)) error {
	return t.eachRun(w, p, func(first, n uint64) error {
		if t.leased.isWide {
			v, err := w.readerA.values64(&t.leased, first, n)
			if err == nil {
				wide(v, first)
			}
			return err
		}
		v, err := w.readerA.values32(&t.leased, first, n)
		if err == nil {
			narrow(v, first)
		}
		return err
	})
}

// eachRun calls f with the first element and the length of every chunk of part p. It fails if f does, or if the work is canceled. It also
// fails if memory of the mapped file is lost while f reads it. Unless the lost byte can be read again, the error is the loader's, which
// names the tensor.
func (t *statsTask) eachRun(w *worker, p uint64, f func(first, n uint64) error) error {
	err := mmapio.Guard(func() error {
		for first, n := range t.chunksOf(p) {
			if err := cmp.Or(f(first, n), w.progress(t.leased.bytesOf(n))); err != nil {
				return err
			}
		}
		return nil
	})
	if lost, ok := err.(*mmapio.FaultError); ok { // of t.leased.inPlace: read the lost byte by the loader, whose error names the tensor
		_, named := t.leased.ReadAt(make([]byte, 1), int64(lost.Offset-t.leased.Offset()))
		err = cmp.Or(named, err) // named is nil if the byte is there again
	}
	return err
}

// chunks yields the first element and the length of every chunk of part p. The tensor has this number of elements; the last chunk may
// be shorter.
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

// checkPasses returns an error that wraps mmapio.ErrChanged if a later pass over the values contradicts the first. The later pass may have
// counted another number of finite values. Or, for BF16s, it may have found neither the least nor the greatest again.
func (t *statsTask) checkPasses() error {
	binned, counted := uint64(0), uint64(0)
	for _, n := range t.stats.Histogram {
		binned += n
	}
	for _, l := range t.levels() {
		counted += l.n
	}
	// findFarthest may have looked for one of the two only: the other stays at MaxUint64.
	isPlaced := !t.isBF16() || t.sum.n == 0 || min(t.sum.minAt, t.sum.maxAt) < t.leased.Elements()
	if (t.histogram == nil || binned == t.sum.n) && counted == t.sum.n && isPlaced {
		return nil
	}
	return wrapInTensor(t.model, t.stats.Tensor, fmt.Errorf("%w: its values were others a moment ago", mmapio.ErrChanged))
}

// levels returns t.counted as ranges of finite values in ascending order. It computes them once for each phase that counts.
func (t *statsTask) levels() []level {
	if t.ascending == nil {
		t.ascending = levels(t.counted, t.isBF16(), t.center, &t.sum)
	}
	return t.ascending
}

// end releases the tensor, and returns its statistics. If err is not nil, or the tensor failed before, they have nothing but Tensor and
// Err. The error that it returns is always nil: other tensors go on.
func (t *statsTask) end(err error) (*TensorStats, error) {
	t.endCounting()
	t.leased.release()
	s := t.stats
	if s.Err = cmp.Or(s.Err, err); s.Err == nil {
		s.Err = t.checkPasses()
	}
	if s.Err != nil {
		return &TensorStats{Tensor: s.Tensor, Err: s.Err}, nil
	}
	t.sum.copyTo(s)
	s.ZeroRows = t.zeroRows.count
	t.addFigures(s)
	return s, nil
}

// addFigures sets the fields of s that follow from the counted values: Percentiles, MaxSigma, MaxSigmaAt, Kurtosis and, if asked for,
// BySigma. If no value is finite, it sets NaN. If Std is 0, NaN or infinite, it sets NaN for all but Percentiles, and no BySigma.
func (t *statsTask) addFigures(s *TensorStats) {
	s.MaxSigma, s.Kurtosis = math.NaN(), math.NaN()
	for i := range s.Percentiles {
		s.Percentiles[i] = math.NaN()
	}
	if s.Finite == 0 {
		return
	}
	all := t.levels()
	for i, percent := range Percents {
		s.Percentiles[i] = quantile(all, s.Finite, percent/100)
	}
	if !(s.Std > 0) || math.IsInf(s.Std, 0) {
		return
	}
	above, below := (s.Max-s.Mean)/s.Std, (s.Mean-s.Min)/s.Std
	s.MaxSigma, s.MaxSigmaAt = above, t.sum.maxAt
	if below > above || (below == above && t.sum.minAt < t.sum.maxAt) { // the first of two equally far
		s.MaxSigma, s.MaxSigmaAt = below, t.sum.minAt
	}
	s.Kurtosis = t.sum.kurtosis()
	if t.bySigma {
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

// copyTo sets the counts of s, Min, Max, Mean and Std to those of the summary. The last four are NaN if no value is finite. A minimum
// or maximum of -0 becomes +0: its sign would depend on the order of the sums.
func (m *summary) copyTo(s *TensorStats) {
	s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf = m.n, m.zeros, m.nan, m.posInf, m.negInf
	s.Min, s.Max, s.Mean, s.Std = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if m.n > 0 {
		s.Min, s.Max, s.Mean, s.Std = m.min+0, m.max+0, m.mean, m.std()
	}
}
