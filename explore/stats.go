package explore

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/odd"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// stats answers data/stats.
func (h *handler) stats(w http.ResponseWriter, r *http.Request) error {
	s, l, err := h.leaseFor(w, theModel)
	if err != nil {
		return err
	}
	defer l.Release()
	if err := l.Changed(); err != nil {
		return err
	}
	which := firstStats
	if exact := r.URL.Query().Get("exact"); exact != "" && exact != "0" || !s.isSampled() {
		which = exactStats
	}
	out, done, err := h.newLines(w)
	if err != nil {
		return err
	}
	defer done()
	j, err := h.joinStats(s, which)
	if err != nil {
		return err
	}
	defer j.leave()
	return j.listen(r.Context(), func(line answer.StatsLine, stats []answer.TensorStat) error {
		line.Stats = stats
		return out.write(&line)
	})
}

// Places of jobs in results.statistics.
const (
	firstStats = iota // of a sample
	exactStats
)

// joinStats returns the job that reads a sample or all of s, which it begins if none runs or has ended well. If all was read
// before, there is no need of a sample. The caller leaves it. It fails if s is not served any more.
func (h *handler) joinStats(s *shown, which int) (*job[answer.TensorStat, answer.StatsLine], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all := s.statistics[exactStats]; all != nil && all.hasEnded() {
		which = exactStats
	}
	if j := s.statistics[which]; j != nil && j.join() {
		return j, nil
	}
	if !h.serves(s) {
		return nil, errSwapped
	}
	j := startJob(func(ctx context.Context, j *job[answer.TensorStat, answer.StatsLine]) error {
		return h.read(ctx, s, which, j)
	}, h.watch,
		func(j *job[answer.TensorStat, answer.StatsLine], p Problem) {
			j.publish(func(line *answer.StatsLine) { line.Error = &p })
			h.mu.Lock()
			defer h.mu.Unlock()
			if s.statistics[which] == j {
				s.statistics[which] = nil
			}
		})
	s.statistics[which] = j
	j.join()
	return j, nil
}

// known returns the figures that are known by now, by number of tensor: exact ones where there are. They are none if a file
// has changed.
func (h *handler) known(s *shown) []*answer.TensorStat {
	if s.model.Changed() != nil {
		return nil
	}
	h.mu.Lock()
	jobs := s.statistics
	h.mu.Unlock()
	var stats []*answer.TensorStat
	for _, j := range jobs {
		if j == nil {
			continue
		}
		if stats == nil {
			stats = make([]*answer.TensorStat, len(s.rows))
		}
		results := j.published()
		for i := range results {
			stats[results[i].Number] = &results[i]
		}
	}
	return stats
}

// findingsOf returns what is known by now to be odd about s: of all values, if they were asked for.
func (h *handler) findingsOf(s *shown) (known []answer.Finding) {
	h.mu.Lock()
	jobs := s.statistics
	h.mu.Unlock()
	for _, j := range jobs {
		if j == nil {
			continue
		}
		j.mu.Lock()
		if j.line.Findings != nil {
			known = j.line.Findings
		}
		j.mu.Unlock()
	}
	return known
}

// read reads a sample or all values of s, and publishes what it finds. It fails as survey.Stats does.
func (h *handler) read(ctx context.Context, s *shown, which int, j *job[answer.TensorStat, answer.StatsLine]) error {
	l, err := s.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	begun := time.Now()
	progress := answer.Progress{AllTensors: len(s.rows), AllValues: s.answer.Parameters, Share: 1}
	if which == firstStats {
		progress.Share = s.sampleShare()
	}
	publish := func(stats ...answer.TensorStat) {
		p := progress
		p.Seconds = time.Since(begun).Seconds()
		j.publish(func(line *answer.StatsLine) { line.Progress = &p }, stats...)
	}
	publish()
	findings := newFindings(s)
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
		progress.Tensors++
		progress.Values += t.Finite + t.NaN + t.PosInf + t.NegInf
		publish(stat)
		if findings.add(stat) {
			findings.find(j)
		}
		return nil
	})
	if err != nil {
		return err
	}
	findings.find(j)
	progress.Done = true
	publish()
	return nil
}

// findings says what is odd about figures as they come.
type findings struct {
	shown *shown
	stats []*answer.TensorStat // by number
	next  time.Time            // when it is worth while to look again
}

// newFindings returns findings without figures.
func newFindings(s *shown) *findings {
	return &findings{shown: s, stats: make([]*answer.TensorStat, len(s.rows)), next: time.Now().Add(betweenLines)}
}

// add adds the figures of a tensor. It reports whether it is time to look again.
func (f *findings) add(stat answer.TensorStat) bool {
	f.stats[stat.Number] = &stat
	return time.Now().After(f.next)
}

// find publishes what is odd so far, and again the figures of tensors that are odd by more than themselves. Looking takes
// a tenth of the time at most.
func (f *findings) find(j *job[answer.TensorStat, answer.StatsLine]) {
	begun := time.Now()
	report := odd.InStats(f.shown.grid, f.stats)
	var changed []answer.TensorStat
	for n, stat := range f.stats {
		if stat != nil && stat.Odd != report.Odd[n] {
			stat.Odd = report.Odd[n]
			changed = append(changed, *stat)
		}
	}
	j.publish(func(line *answer.StatsLine) { line.Findings = report.Findings }, changed...)
	f.next = time.Now().Add(betweenLines + 10*time.Since(begun))
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
