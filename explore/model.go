package explore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// shown is what the page shows of an open model, made from its index once.
type shown struct {
	model   *loader.Model
	tensors []loader.Tensor // which work while the model is open; see Lease.Of
	rows    []answer.TensorRow
	numbers map[string]int // by name
	grid    *grid.Index    // where they stand in the network
	answer  answer.ModelAnswer
	stored  uint64 // bytes of all tensors
	isKnown bool   // models of other content have another ID
	*results
}

// Places of models in handler.models.
const (
	theModel = iota
	theCompared
)

// lease takes a lease of one of the models, and returns what is shown of it. The caller releases the lease. It fails as the
// function does that the handler was given. If that gives another model than before, or none because it is closed, the jobs about the
// one before end.
func (h *handler) lease(side int) (s *shown, l *loader.Lease, err error) {
	open := h.open
	if side == theCompared {
		open = h.opts.Compared
	}
	if open == nil {
		return nil, nil, failed(http.StatusNotFound, "There is no model to compare with.")
	}
	l, err = open()
	if taken := l; err == nil {
		defer func() {
			if s == nil {
				taken.Release()
			}
		}()
	}
	show, err := h.served(side, l, err)
	if err != nil {
		return nil, nil, err
	}
	s = show()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use(s.results)
	return s, l, nil
}

// served returns the function that makes what is shown of the model that l holds, which it makes the one that is served. err is what
// open failed with. It fails with that, or if the model was swapped out meanwhile.
func (h *handler) served(side int, l *loader.Lease, err error) (func() *shown, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.models[side].model
	switch {
	case errors.Is(err, loader.ErrClosed):
		h.swap(side, nil)
		return nil, err
	case err != nil:
		return nil, err
	case now == l.Model():
	case now != nil && l.Model().Stats().Closed:
		return nil, errSwapped
	default:
		h.swap(side, l)
	}
	if h.forget == nil {
		h.forget = time.AfterFunc(keepFor, h.forgetModels)
	} else {
		h.forget.Reset(keepFor)
	}
	return h.models[side].shown, nil
}

// forgetModels drops what was derived from the models, unless a page is open.
func (h *handler) forgetModels() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) > 0 {
		h.forget.Reset(keepFor)
		return
	}
	h.models, h.results = [2]served{}, nil
}

// newShown returns what is shown of the model that l holds. from and signature are as in Options.
func newShown(l *loader.Lease, from, signature string) *shown {
	m := l.Model()
	s := &shown{model: m, tensors: slices.Collect(l.Tensors()), rows: make([]answer.TensorRow, 0, m.Len()), numbers: make(map[string]int, m.Len())}
	files := m.Files()
	a := &s.answer
	a.From, a.Format, a.Files, a.Tensors = cmp.Or(from, m.Path()), m.Format().String(), len(files), len(s.tensors)
	if a.Title = filepath.Base(a.From); strings.Trim(a.Title, "./") == "" { // a folder that is called by where it is
		a.Title = filepath.Base(m.Path())
	}
	if version := files[0].Layout.Index().Version; version != "" {
		a.Format += " " + version
	}
	a.Signature = "none"
	if signature != "" {
		a.Signature = signature + ", verified"
	} else if claimed := report.ClaimedSigner(l); claimed != "" {
		a.Signature = claimed + ", not verified"
	}
	a.Unreadable = []string{}
	for _, f := range files {
		a.Bytes += f.Size
	}
	sums := make(map[string]*report.Total)
	for i, t := range s.tensors {
		row := answer.TensorRow{Number: i, Name: t.Name(), Type: report.Kind(t), Shape: report.OrEmpty(t.Shape()), Elements: t.Elements(),
			Bytes: t.StoredBytes(), File: t.File(), Offset: t.Offset(), Layer: -1, Expert: -1}
		s.rows = append(s.rows, row)
		s.numbers[row.Name] = i
		a.Parameters += row.Elements
		s.stored += row.Bytes
		report.AddTo(sums, report.Total{Kind: row.Type, Tensors: 1, Elements: row.Elements, Bytes: row.Bytes})
	}
	a.BitsPerWeight = answer.Real(8 * float64(s.stored) / float64(a.Parameters))
	a.Types = []answer.TypeTotal{}
	for i, t := range report.LargestFirst(sums) {
		a.Types = append(a.Types, answer.TypeTotal{Type: t.Kind, Tensors: t.Tensors, Elements: t.Elements, Bytes: t.Bytes, Tone: toneOf(i)})
	}
	s.grid = grid.New(s.rows)
	for i := range s.grid.Parts {
		s.grid.Parts[i].Tone = toneOf(i)
	}
	a.Names, a.Grid, a.Outside, a.Parts, a.Example = s.grid.Names, s.grid.Grid, s.grid.Outside, s.grid.Parts, s.grid.Example
	// Statistics of integers that stand for themselves tell no σ.
	hasSigma := func(t loader.Tensor) bool { return !math.IsNaN((&survey.TensorStats{Tensor: t}).Shown().Std) }
	if a.Grid.Why == "" && !slices.ContainsFunc(s.tensors, hasSigma) {
		a.Grid.Why = "No value is a real number, so there is no σ to map."
	}
	addSummary(a, l)
	a.ID, s.isKnown = identity(m, s.rows)
	return s
}

// addSummary adds the format's own summary to a, as a list of labels and values, or why it cannot be read.
func addSummary(a *answer.ModelAnswer, l *loader.Lease) {
	facts, err := l.Summary()
	if err != nil {
		a.Unreadable = append(a.Unreadable, err.Error())
	}
	if len(facts) == 0 {
		return
	}
	list := make([][2]string, len(facts))
	for i, f := range facts {
		list[i] = [2]string{f.Label, f.Value}
		if f.Label == "file type" {
			a.Quantization = f.Value
		}
	}
	a.Summary, _ = json.Marshal(list) // strings never fail
}

// definitions is the version of the figures and findings. A change of what one of them means changes it.
const definitions = 1

// identity returns a digest of what is known of the content of the model's files, and of what makes figures of it. Models of other
// content have another one if isKnown is true; else other models that are open.
func identity(m *loader.Model, rows []answer.TensorRow) (id string, isKnown bool) {
	digest := sha256.New()
	said, err := m.Quantization()
	fmt.Fprintln(digest, definitions, said, err)
	isKnown = true
	for _, f := range m.Files() {
		fmt.Fprintf(digest, "%q %d\n", f.ContentID, f.Size)
		isKnown = isKnown && f.ContentID != ""
	}
	var line []byte
	for i := range rows {
		r := &rows[i]
		line = append(append(append(line[:0], r.Name...), 0), r.Type...)
		for _, n := range r.Shape {
			line = strconv.AppendInt(append(line, ' '), int64(n), 10)
		}
		digest.Write(strconv.AppendUint(append(line, '@'), r.Offset, 10))
	}
	if !isKnown {
		fmt.Fprintf(digest, "%p", m)
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), isKnown
}

// model answers data/model.
func (h *handler) model(r *request) (any, error) {
	a := r.shown.answer
	a.Name = nameOf(r.ctx, r.shown)
	if h.opts.Compared != nil {
		b, l, err := h.lease(theCompared)
		if err != nil {
			return nil, err
		}
		defer l.Release()
		a.Compared = b.side()
	}
	return &a, nil
}

// nameOf returns what the configuration of s calls the model, or what its file does, or else its title.
func nameOf(ctx context.Context, s *shown) string {
	if c, err := s.model.Config(ctx); err == nil { // the metadata show what is wrong with it
		for _, key := range []string{"_name_or_path", "general.name"} {
			v, _ := c.Value(key)
			if name, ok := v.(string); ok && strings.Trim(name, "./ ") != "" {
				return report.Shorten(report.Printable(name), 120)
			}
		}
	}
	return report.Printable(s.answer.Title)
}

// side returns what the page says of s, next to what it says of another model.
func (s *shown) side() *answer.Side {
	a := &s.answer
	var types []string
	for _, t := range a.Types {
		types = append(types, t.Type)
	}
	return &answer.Side{Title: a.Title, From: a.From, Format: a.Format, Quantization: a.Quantization, Types: strings.Join(types, ", "), Tensors: a.Tensors,
		Bytes: a.Bytes, BitsPerWeight: a.BitsPerWeight}
}

// maxRows bounds the tensors that one request describes.
const maxRows = 1000

// rows answers data/rows.
func (h *handler) rows(r *request) (any, error) {
	out := answer.RowsAnswer{Rows: []answer.TensorRow{}}
	for text := range strings.SplitSeq(r.query.Get("numbers"), ",") {
		low, high, isRange := strings.Cut(text, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err != nil || err2 != nil || first < 0 || first > last || last >= len(r.shown.rows) {
			return nil, failed(http.StatusBadRequest, "There are no tensors of the numbers %q.", text)
		}
		if len(out.Rows)+last-first >= maxRows {
			return nil, failed(http.StatusBadRequest, "More than %d tensors were asked for at once.", maxRows)
		}
		out.Rows = append(out.Rows, r.shown.rows[first:last+1]...)
	}
	return &out, nil
}

// Bounds of a request for the list.
const (
	maxListed = 500  // rows of a window
	maxOpen   = 1000 // groups that are unfolded
)

// list answers data/list.
func (h *handler) list(r *request) (any, error) {
	q := grid.Query{Search: r.query.Get("q"), Group: r.query.Get("group"), Sort: r.query.Get("sort"), Show: r.query.Get("show"), Open: r.query["open"]}
	if len(q.Open) > maxOpen {
		return nil, failed(http.StatusBadRequest, "More than %d groups are unfolded.", maxOpen)
	}
	var err error
	if q.From, q.Count, err = windowIn(r.query, 60); err != nil {
		return nil, err
	}
	return inTurn(r.ctx, h.lists, func() (any, error) { return r.grid.List(r.ctx, q, h.known(r.shown)) })
}

// windowIn returns from which row on a query asks for how many: usual ones unless it says so. It fails as numberOf does.
func windowIn(query url.Values, usual int) (from, count int, err error) {
	if from, err = numberOf(query, "from", 0, math.MaxInt); err == nil {
		count, err = numberOf(query, "count", usual, maxListed)
	}
	return from, count, err
}

// numberOf returns the number that a query has under a name, or usual if it has none. It fails if that is not from 0 to most.
func numberOf(query url.Values, name string, usual, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, failed(http.StatusBadRequest, "%s=%q is no number from 0 to %d.", name, text, most)
	}
	return n, nil
}
