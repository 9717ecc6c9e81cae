package explore

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/odd"
	"github.com/tensormap/tensormap/loader/survey"
)

// compare answers data/compare.
func (h *handler) compare(r *request) (any, error) {
	return stream(func(write func(any) error) error {
		a := r.shown
		b, l, err := h.lease(theCompared)
		if err != nil {
			return err
		}
		defer l.Release()
		if err := cmp.Or(r.lease.Changed(), l.Changed()); err != nil {
			return err
		}
		if isSet(r.query, "swap") {
			a, b = b, a
		}
		h.mu.Lock()
		j, err := joinJob(h, a.comparisons, b.results, func(ctx context.Context, j *compareJob) error { return h.compareAll(ctx, a, b, j) }, a, b)
		h.mu.Unlock()
		if err != nil {
			return err
		}
		defer j.leave()
		isFirst := true
		return j.listen(r.ctx, func(line answer.Line, pairs []answer.Pair) error {
			if isFirst {
				line.A, line.B, line.Grid = a.side(), b.side(), &a.answer.Grid
			}
			isFirst = false
			line.Pairs = pairs
			return write(&line)
		})
	}), nil
}

// compareAll compares all tensors of b with the tensors of a, and publishes what it finds. It fails as survey.Compare does.
func (h *handler) compareAll(ctx context.Context, a, b *shown, j *compareJob) error {
	la, err := a.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer la.Release()
	lb, err := b.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lb.Release()
	sums := &sums{a: a, b: b, byType: make(map[string]*typeSum)}
	j.begin(answer.Progress{AllTensors: len(a.rows), AllValues: a.answer.Parameters, Share: 1})
	opts := h.reading()
	var pairs []answer.Pair
	find := func() odd.Report {
		return odd.InPairs(odd.Comparison{Index: a.grid, Pairs: pairs, Asked: b.answer.Quantization, Done: j.progress.Done})
	}
	err = survey.Compare(ctx, a.model, b.model, &opts, func(p *survey.Pair) error {
		if p.A != nil {
			j.progress.Tensors++
			j.progress.Values += p.A.Elements()
		}
		h.keepToModel(a, p.Err != nil)
		pairs = append(pairs, sums.add(p))
		j.publish(nil, pairs[len(pairs)-1])
		j.sometimes(func() {
			findings := find().Findings
			j.publish(func(line *answer.Line) { line.Findings = findings })
		})
		return nil
	})
	if err != nil {
		return err
	}
	// Overall figures are of all tensors, also of equal ones.
	if err := cmp.Or(sums.all.Complete(ctx, a.model, opts), sums.matrices.Complete(ctx, a.model, opts)); err != nil {
		return err
	}
	j.progress.Done = true
	report := find()
	for i := range pairs {
		pairs[i].ErrorShare = sums.share(sums.squares[i])
		pairs[i].Odd = report.Odd[pairs[i].Number]
	}
	overall, types := sums.overall(), sums.types()
	j.publish(func(line *answer.Line) {
		line.Overall, line.Types, line.Findings = &overall, types, report.Findings
	}, pairs...)
	return nil
}

// sums adds up what b differs from a by.
type sums struct {
	a, b          *shown
	all, matrices survey.Overall
	squares       []float64 // of the errors of each pair; NaN of one that is not compared
	byType        map[string]*typeSum
	counts        answer.Overall
	onlyInB       int
}

// typeSum adds up the errors of tensors of a type.
type typeSum struct {
	answer.TypeError
	errors survey.Errors
	bytes  uint64
}

// add adds a pair to the sums, and describes it.
func (s *sums) add(p *survey.Pair) answer.Pair {
	nan := answer.Real(math.NaN())
	j := answer.Pair{Name: p.Name, Bits: nan, DB: nan, TypeDB: nan, RelativeRMS: nan, Cosine: nan, MaxAbs: nan, ErrorShare: nan}
	var in, other *answer.TensorRow
	if p.A != nil {
		j.Number = s.a.numbers[p.Name]
		in = &s.a.rows[j.Number]
		j.TypeA, j.Elements = in.Type, in.Elements
	}
	if p.B != nil {
		other = &s.b.rows[s.b.numbers[p.Name]]
		j.TypeB, j.Bits = other.Type, answer.Real(8*float64(other.Bytes)/float64(other.Elements))
		j.Elements = other.Elements
	}
	s.squares = append(s.squares, math.NaN())
	switch {
	case p.A == nil:
		j.OnlyIn, j.Number = "b", len(s.a.rows)+s.onlyInB
		s.onlyInB++
		s.counts.OnlyB++
		return j
	case p.B == nil:
		j.OnlyIn = "a"
		s.counts.OnlyA++
		return j
	case p.Err != nil:
		j.Error = p.Err.Error()
		s.counts.Damaged++
		return j
	}
	j.Same, j.OtherShape = p.SameElements, !p.SameShape
	if p.Identical() {
		s.counts.Identical++
	} else {
		s.counts.Differ++
	}
	if !p.Compared {
		return j
	}
	j.Lost = p.Unmatched
	p = p.Shown()
	s.squares[len(s.squares)-1] = p.DD
	j.DB, j.TypeDB, j.RelativeRMS, j.Cosine, j.MaxAbs = answer.Real(p.DB()), answer.Real(p.TypeDB()), answer.Real(p.RelativeRMS()), answer.Real(p.Cosine()), answer.Real(p.MaxAbs)
	if math.IsNaN(p.DD) { // integers
		return j
	}
	s.all.Add(p)
	if in.Layer >= 0 && len(in.Shape) > 1 {
		s.matrices.Add(p)
	}
	t := s.byType[j.TypeB]
	if t == nil {
		t = &typeSum{TypeError: answer.TypeError{Type: j.TypeB, TypeDB: nan}}
		s.byType[j.TypeB] = t
	}
	if math.IsNaN(float64(t.TypeDB)) {
		t.TypeDB = j.TypeDB
	}
	t.Tensors++
	t.Elements += other.Elements
	t.bytes += other.Bytes
	t.errors.Add(p.Errors)
	return j
}

// share returns the share of squared errors in the squared errors of all tensors. It is NaN if nothing differs.
func (s *sums) share(squares float64) answer.Real { return answer.Real(squares / s.all.DD) }

// overall returns the figures over all tensors.
func (s *sums) overall() answer.Overall {
	o := s.counts
	o.DB, o.RelativeRMS, o.Cosine = answer.Real(s.all.DB()), answer.Real(s.all.RelativeRMS()), answer.Real(s.all.Cosine())
	o.MatricesDB = answer.Real(s.matrices.DB())
	return o
}

// types returns the errors by type, the largest share first.
func (s *sums) types() []answer.TypeError {
	list := []answer.TypeError{}
	for _, t := range s.byType {
		t.Bits = answer.Real(8 * float64(t.bytes) / float64(t.Elements))
		t.DB, t.ErrorShare = answer.Real(t.errors.DB()), s.share(t.errors.DD)
		list = append(list, t.TypeError)
	}
	slices.SortFunc(list, func(x, y answer.TypeError) int {
		return cmp.Or(cmp.Compare(y.ErrorShare, x.ErrorShare), cmp.Compare(x.Type, y.Type))
	})
	return list
}
