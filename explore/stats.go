package explore

import (
	"context"
	"errors"
	"math"
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
	if isSet(r.query, "exact") || !r.isSampled() {
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
	if all := s.statistics[exactStats]; all != nil && all.hasEnded() {
		which = exactStats
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
		_, results := j.published()
		for i := range results {
			stats[results[i].Number] = &results[i]
		}
	}
	return stats
}

// findingsOf returns what is known by now to be odd about s: of all values, if they were asked for.
func (h *handler) findingsOf(s *shown) (known []answer.Finding) {
	for _, j := range h.statsJobs(s) {
		if line, _ := j.published(); line.Findings != nil {
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
