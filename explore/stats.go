package explore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/odd"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// stats answers data/stats.
func (h *handler) stats(r *request) (any, error) {
	if err := r.lease.Changed(); err != nil {
		return nil, err
	}
	which := firstStats
	if isSet(r.query, "exact") || r.stored < sampleFrom {
		which = exactStats
	}
	return stream(func(write func(any) error) error {
		j, err := h.joinStats(r.shown, which)
		if err != nil {
			return err
		}
		defer j.leave()
		return j.listen(r.ctx, func(line answer.Line, stats []answer.TensorStat) error {
			line.Stats = stats
			return write(&line)
		})
	}), nil
}

// isSet reports whether a query has a name with a value that is not 0.
func isSet(query url.Values, name string) bool {
	return query.Get(name) != "" && query.Get(name) != "0"
}

// Places of jobs in results.statistics.
const (
	firstStats = iota // of a sample
	exactStats
)

// joinStats returns the job that reads a sample or all of s, as joinJob does. If all was read before, there is no need of a sample.
func (h *handler) joinStats(s *shown, which int) (*statsJob, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all := s.statistics[exactStats]; all != nil {
		if _, _, ended := all.published(); ended {
			which = exactStats
		}
	}
	return joinJob(h, s.statistics, which, func(ctx context.Context, j *statsJob) error { return h.read(ctx, s, which, j) }, s)
}

// statsJobs returns the jobs that there are for s: of a sample before of all values.
func (h *handler) statsJobs(s *shown) []*statsJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc([]*statsJob{s.statistics[firstStats], s.statistics[exactStats]}, func(j *statsJob) bool { return j == nil })
}

// known returns the figures that are known by now, by number of tensor: exact ones where there are. They are none if a file
// has changed.
func (h *handler) known(s *shown) (stats []*answer.TensorStat) {
	if s.model.Changed() != nil {
		return nil
	}
	for _, j := range h.statsJobs(s) {
		if stats == nil {
			stats = make([]*answer.TensorStat, len(s.rows))
		}
		_, results, _ := j.published()
		for i := range results {
			stats[results[i].Number] = &results[i]
		}
	}
	return stats
}

// findingsOf returns what is known by now to be odd about s: of all values, if they were asked for.
func (h *handler) findingsOf(s *shown) (known []answer.Finding) {
	for _, j := range h.statsJobs(s) {
		if line, _, _ := j.published(); line.Findings != nil {
			known = line.Findings
		}
	}
	return known
}

// read reads a sample or all values of s, and publishes what it finds. It fails as survey.Stats does.
func (h *handler) read(ctx context.Context, s *shown, which int, j *statsJob) error {
	l, err := s.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	progress := answer.Progress{AllTensors: len(s.rows), AllValues: s.answer.Parameters, Share: 1}
	if which == firstStats {
		progress.Share = s.sampleShare()
	}
	j.begin(progress)
	stats := make([]*answer.TensorStat, len(s.rows)) // by number
	// find publishes what is odd, and again the figures of tensors that are odd by more than themselves.
	find := func() {
		report := odd.InStats(s.grid, stats)
		var changed []answer.TensorStat
		for n, stat := range stats {
			if stat != nil && stat.Odd != report.Odd[n] {
				stat.Odd = report.Odd[n]
				changed = append(changed, *stat)
			}
		}
		j.publish(func(line *answer.Line) { line.Findings = report.Findings }, changed...)
	}
	opts := survey.StatsOptions{Options: h.reading(), BySigma: true}
	if which == firstStats {
		opts.Sample = func(t loader.Tensor) (places []uint64, each uint64) { return samplePlaces(t.Elements()) }
	}
	err = survey.Stats(ctx, s.model, &opts, func(t *survey.TensorStats) error {
		stat := statOf(s.numbers[t.Tensor.Name()], t)
		if !t.Sampled {
			h.keepFigures(s, stat.Number, t)
		}
		h.keepToModel(s, stat.Kind == damaged)
		j.progress.Tensors++
		j.progress.Values += t.Finite + t.NaN + t.PosInf + t.NegInf
		j.publish(nil, stat)
		stats[stat.Number] = &stat
		j.sometimes(find)
		return nil
	})
	if err != nil {
		return err
	}
	find()
	j.progress.Done = true
	j.publish(nil)
	return nil
}

// damaged is the TensorStat.Kind of a tensor that cannot be read.
const damaged = "damaged"

// statOf returns the figures of the tensor of a number.
func statOf(number int, t *survey.TensorStats) answer.TensorStat {
	t = t.Shown()
	s := answer.TensorStat{Number: number, Sampled: t.Sampled}
	if t.Err != nil {
		s.Error, s.Kind = t.Err.Error(), damaged
		if errors.Is(t.Err, loader.ErrUnsupported) {
			s.Kind = "no values"
		}
		nan := answer.Real(math.NaN())
		s.Min, s.Max, s.Mean, s.Std, s.MaxSigma, s.Excess, s.Kurtosis = nan, nan, nan, nan, nan, nan, nan
		return s
	}
	s.Finite, s.Zeros, s.ZeroRows, s.NaN, s.PosInf, s.NegInf = t.Finite, t.Zeros, t.ZeroRows, t.NaN, t.PosInf, t.NegInf
	s.Min, s.Max, s.Mean, s.Std, s.MaxSigma, s.Kurtosis = answer.Real(t.Min), answer.Real(t.Max), answer.Real(t.Mean), answer.Real(t.Std), answer.Real(t.MaxSigma), answer.Real(t.Kurtosis)
	s.Excess = answer.Real(odd.Excess(t.MaxSigma, t.Finite))
	s.Percentiles = make(map[string]answer.Real, len(survey.Percents))
	for i, percent := range survey.Percents {
		s.Percentiles[strconv.FormatFloat(percent, 'g', -1, 64)] = answer.Real(t.Percentiles[i])
	}
	if !math.IsNaN(t.MaxSigma) {
		s.MaxSigmaAt = survey.Coordinates(t.MaxSigmaAt, t.Tensor.Shape())
	}
	return s
}

// Bounds of samples. A sample has blocks of values at places that are random, but the same each time: one place in each of
// as many equal shares of the tensor as there are places, so that rows are met evenly. A fixed stride would meet few columns.
// At each place of a large tensor lie several blocks side by side, as a system that reads a page reads pages around it.
const (
	sampleFrom       = 2 << 30 // stored bytes of a model that is sampled first
	sampleOneOf      = 64
	sampleBlock      = 256  // values
	minBlocks        = 256  // of a tensor; smaller tensors are read as a whole
	maxBlocks        = 4096 // of a tensor
	maxBlocksAtPlace = 16   // blocks at one place
)

// sampleSize returns at how many places a tensor of n values is read, and how many values at each. It returns 0 places if
// all values are read.
func sampleSize(n uint64) (places, each uint64) {
	if n <= minBlocks*sampleBlock {
		return 0, 0
	}
	blocks := min(max(n/(sampleOneOf*sampleBlock), minBlocks), maxBlocks)
	atPlace := min(max(n>>20, 1), maxBlocksAtPlace)
	return blocks / atPlace, atPlace * sampleBlock
}

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
	blocks, atPlace := n/sampleBlock, size/sampleBlock
	for i := range places {
		from, to := blocks*uint64(i)/count, blocks*uint64(i+1)/count-atPlace
		places[i] = sampleBlock * (from + random.Uint64N(to-from+1))
	}
	return places, size
}
