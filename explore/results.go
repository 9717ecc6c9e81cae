package explore

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// results are what was found in the values of a model, by numbers of tensors. They are of its files: another open model of the
// same files takes them over. handler.mu guards them.
type results struct {
	id          string                      // of the files' content, as ModelAnswer.ID; "" if no other model may take them over
	tensors     int                         // of the model
	figures     map[int]*survey.TensorStats // exact, of some tensors; without Tensor, which would keep the model
	statistics  map[int]*statsJob           // of a sample, and exact; none until a page asks
	comparisons map[*results]*compareJob    // of other models with this one
}

// Bounds of the results that the handler has in addition to the results of the two models that are served.
const (
	maxResultTensors = 100_000 // tensors
	minResultTensors = 1_000   // tensors that the results of a smaller model count for
)

// use makes r the results that were used last, and drops others that were used longest ago beyond the bounds. Its caller holds
// h.mu.
func (h *handler) use(r *results) {
	h.results = append(slices.DeleteFunc(h.results, func(k *results) bool { return k == r }), r)
	count := 0
	for i := len(h.results) - 1 - len(h.models); i >= 0; i-- {
		if count += max(h.results[i].tensors, minResultTensors); count > maxResultTensors {
			dropped := h.results[:i+1]
			for _, k := range h.results {
				maps.DeleteFunc(k.comparisons, func(other *results, _ *compareJob) bool {
					return slices.Contains(dropped, other)
				})
			}
			h.results = slices.Clone(h.results[i+1:])
			return
		}
	}
}

// resultsOf returns the results that the handler has of the files that s is about, or new ones. Its caller holds h.mu.
func (h *handler) resultsOf(s *shown) *results {
	if at := slices.IndexFunc(h.results, func(k *results) bool { return s.isKnown && k.id == s.answer.ID }); at >= 0 {
		return h.results[at]
	}
	r := &results{tensors: len(s.rows), figures: make(map[int]*survey.TensorStats), statistics: make(map[int]*statsJob),
		comparisons: make(map[*results]*compareJob)}
	if s.isKnown {
		r.id = s.answer.ID
	}
	return r
}

// keepToModel keeps the results of s from other open models if they have an error of reading: another model may read what this one could not.
func (h *handler) keepToModel(s *shown, isError bool) {
	if isError {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.results.id = ""
	}
}

// served is a model that open gave last.
type served struct {
	model   *loader.Model
	shown   func() *shown // makes it at the first call, which may take long
	results *results      // nil until it is made
}

// show returns what is shown of the model of a side, which l holds, with the results that the handler has of its files.
func (h *handler) show(l *loader.Lease, side int) *shown {
	s := newShown(l, [...]string{h.opts.From, h.opts.ComparedFrom}[side], h.opts.Signature)
	h.mu.Lock()
	defer h.mu.Unlock()
	s.results = h.resultsOf(s)
	if h.models[side].model == s.model {
		h.models[side].results = s.results
	}
	return s
}

// serves reports whether s is of a model that is served. Its caller holds h.mu.
func (h *handler) serves(s *shown) bool {
	return slices.ContainsFunc(h.models[:], func(m served) bool { return m.model == s.model })
}

// watch asks each second which models are served, until ctx ends: see lease.
func (h *handler) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		for side := range h.models {
			if _, l, err := h.lease(side); err == nil {
				l.Release()
			}
		}
	}
}

// errSwapped ends jobs about a model that is not served any more.
var errSwapped = &problem{Problem{Text: "Another model is served now.", Hint: "Load the page again.", Swapped: true}, http.StatusServiceUnavailable}

// swap makes m the model of a side, or none if it is nil. It ends the jobs about the one before: their listeners hear errSwapped.
// Its caller holds h.mu.
func (h *handler) swap(side int, l *loader.Lease) {
	before := h.models[side].results
	h.models[side] = served{}
	if l != nil {
		h.models[side] = served{model: l.Model(), shown: sync.OnceValue(func() *shown { return h.show(l, side) })}
	}
	if before == nil {
		return
	}
	if side == theModel {
		for _, j := range before.statistics {
			j.end(errSwapped)
		}
	}
	for _, k := range h.results {
		for other, j := range k.comparisons {
			if k == before || other == before {
				j.end(errSwapped)
			}
		}
	}
}
