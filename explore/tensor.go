package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/odd"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// single is one tensor of the model that is shown, for one request.
type single struct {
	*shown
	loader.Tensor // through the lease
	number        int
	lease         *loader.Lease
	matrix        matrix
}

// ofTensor returns a function that calls find with the tensor that a request names, under a lease whose reads end with the request.
// The returned function fails if find does, if there is no such tensor, or if the model is closed.
func ofTensor(find func(*handler, *request, *single) (any, error)) func(*handler, *request) (any, error) {
	return func(h *handler, r *request) (any, error) {
		number, ok := r.numbers[r.query.Get("name")]
		if !ok {
			return nil, failed(http.StatusNotFound, "The model has no tensor of this name.")
		}
		l, err := r.shown.model.AcquireContext(r.ctx)
		if err != nil {
			return nil, err
		}
		defer l.Release()
		t := l.Of(r.tensors[number])
		return find(h, r, &single{r.shown, t, number, l, matrixOf(t, h.isPolite)})
	}
}

// maxFigures bounds the tensors whose exact figures are stored.
const maxFigures = 4096

// figuresOf returns the exact figures of t, with the histogram by σ. It reads the values unless they were asked for before. Its
// caller has taken its turn. It fails as survey.Stats does.
func (h *handler) figuresOf(ctx context.Context, t *single) (*survey.TensorStats, error) {
	h.mu.Lock()
	known := t.figures[t.number]
	h.mu.Unlock()
	if known != nil {
		figures := *known
		figures.Tensor = t.Tensor
		return &figures, t.lease.Changed()
	}
	name := t.Name()
	opts := survey.StatsOptions{Options: h.reading(), BySigma: true}
	opts.Workers, opts.Filter = 1, func(n string) bool { return n == name }
	err := survey.Stats(ctx, t.model, &opts, func(s *survey.TensorStats) error {
		known = s
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.keepFigures(t.shown, t.number, known)
	return known, nil
}

// keepFigures keeps the exact figures of a tensor, unless there are too many, or none.
func (h *handler) keepFigures(s *shown, number int, figures *survey.TensorStats) {
	stored := *figures
	stored.Tensor = loader.Tensor{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if stored.Err == nil && len(s.figures) < maxFigures {
		s.figures[number] = &stored
	}
}

// tensor answers data/tensor.
func (h *handler) tensor(r *request, t *single) (any, error) {
	return inTurn(r.ctx, h.tensors, func() (any, error) { return h.describe(r.ctx, t) })
}

// firstValues is how many values of a tensor are shown as examples.
const firstValues = 8

// describe returns all that the page says of one tensor in words and figures.
func (h *handler) describe(ctx context.Context, t *single) (*answer.TensorAnswer, error) {
	figures, err := h.figuresOf(ctx, t)
	if err != nil {
		return nil, err
	}
	figures = figures.Shown()
	m := t.matrix
	a := &answer.TensorAnswer{TensorRow: t.rows[t.number], Stat: statOf(t.number, figures), FloatBytes: 4 * t.Elements(),
		Rows: m.rows, Columns: m.columns, Stored: storedAs(t.Tensor), ReadAs: readAs(t.Tensor), Block: blockOf(t.Tensor), First: []answer.Value{}}
	a.SameRole, a.Before, a.After = t.neighbours(t.number)
	a.SameRole, a.SameRoleMore = nearest(a.SameRole, t.number)
	if t.Scheme() != nil {
		a.Parts, err = m.schemeParts(ctx)
	} else {
		a.Parts, err = m.blockParts(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.DB, a.TypeDB = h.errorsOf(t)
	a.Go, a.Command = t.howToRead(t.Tensor, figures)
	a.Stat.SigmaHistogram, a.Stat.Gaussian = figures.BySigma, gaussianBins(figures)
	a.Findings, a.Stat.Odd = odd.OfTensor(t.grid, &a.Stat, h.findingsOf(t.shown))
	if figures.Err != nil || t.Elements() == 0 {
		return a, nil
	}
	m.rows, m.columns = 1, t.Elements()
	first, err := m.texts(ctx, region{extent{0, 1}, extent{0, min(m.columns, firstValues)}})
	if err != nil {
		return nil, err
	}
	a.First = first[0]
	return a, nil
}

// errorsOf returns the ratio of signal to error of a tensor in the compared model, and what its type keeps of Gaussian values. It
// returns nil for what is not known, or not yet.
func (h *handler) errorsOf(t *single) (db, typeDB *answer.Real) {
	h.mu.Lock()
	j := t.comparisons[h.models[theCompared].results]
	h.mu.Unlock()
	if j == nil {
		return nil, nil
	}
	_, pairs, _ := j.published()
	for _, p := range pairs {
		if p.Number == t.number && !math.IsNaN(float64(p.DB)) {
			db = &p.DB
			if !math.IsNaN(float64(p.TypeDB)) {
				typeDB = &p.TypeDB
			}
		}
	}
	return db, typeDB
}

// gaussianBins returns how many of as many Gaussian values each bin of a histogram by σ would count, or nil if there is none.
func gaussianBins(s *survey.TensorStats) []float64 {
	if s.BySigma == nil {
		return nil
	}
	bins := make([]float64, survey.SigmaBins)
	below := 0.0 // the share of values below the bin
	for i := range bins {
		upTo := 1.0
		if i < survey.SigmaBins-1 {
			upTo = 0.5 * math.Erfc(-survey.SigmaEdge(i+1)/math.Sqrt2)
		}
		bins[i] = float64(s.Finite) * (upTo - below)
		below = upTo
	}
	return bins
}

// neighbours returns the tensors of the same role in all layers, of the same expert. It also returns the names of the tensors a layer before
// and behind.
func (s *shown) neighbours(number int) (same []int, before, after string) {
	same = s.grid.Alike(number)
	at := slices.Index(same, number)
	if at > 0 {
		before = s.rows[same[at-1]].Name
	}
	if at >= 0 && at < len(same)-1 {
		after = s.rows[same[at+1]].Name
	}
	return same, before, after
}

// maxSameRole is how many tensors of a role an answer lists.
const maxSameRole = 200

// nearest returns the numbers around number, at most maxSameRole, and how many it leaves out.
func nearest(numbers []int, number int) (some []int, more int) {
	more = max(0, len(numbers)-maxSameRole)
	from := min(max(0, slices.Index(numbers, number)-maxSameRole/2), more)
	return numbers[from : len(numbers)-more+from], more
}

// storedAs says in words how a tensor is stored.
func storedAs(t loader.Tensor) string {
	switch w := t.Scheme(); {
	case w != nil:
		return fmt.Sprintf("%s, in %d tensors", w.Scheme, len(t.Parts()))
	case t.Encoding() != layout.Raw:
		return t.Encoding().String()
	case t.DType().BlockElems() > 1:
		return fmt.Sprintf("blocks of %d", t.DType().BlockElems())
	}
	return "as it is"
}

// readAs says in words how values of a tensor come to be read.
func readAs(t loader.Tensor) string {
	switch {
	case t.Problem() != nil:
		return "not decoded"
	case t.Scheme() == nil && t.DType() == layout.F32 && t.ZeroCopy():
		return "in place"
	case t.Encoding().Packed():
		return "unpacked once, cached"
	}
	return "expanded once, cached"
}

// blockOf says what one block of a tensor holds. It returns "" if there are no blocks.
func blockOf(t loader.Tensor) string {
	d := t.DType()
	if t.Scheme() != nil || d.BlockElems() < 2 {
		return ""
	}
	return fmt.Sprintf("%d values of a row in %d bytes", d.BlockElems(), d.BlockBytes())
}

// howToRead returns lines of Go that read a tensor, and a command that prints its value farthest from the mean. They read the stored
// bytes of a tensor without values.
func (s *shown) howToRead(t loader.Tensor, figures *survey.TensorStats) (code, command string) {
	open := fmt.Sprintf("loader.Open(%q, nil)", s.answer.From)
	if strings.Contains(s.answer.From, "://") {
		open = fmt.Sprintf("remote.Open(ctx, %q, nil)", s.answer.From)
	}
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape()), " ", " × "), "[]")
	values, slice, as := "Float32s", "", ""
	if errors.Is(figures.Err, loader.ErrUnsupported) { // no values
		values, as = "Bytes", " --as raw"
	}
	code = fmt.Sprintf("m, err := %s\nt, err := m.Tensor(%q)\nx, err := t.%s() // %s, row-major", open, t.Name(), values, cmp.Or(shape, "scalar"))
	if figures.Err == nil && !math.IsNaN(figures.MaxSigma) && len(t.Shape()) > 0 {
		slice = report.IndexText(survey.Coordinates(figures.MaxSigmaAt, t.Shape()))
	}
	return code, fmt.Sprintf("tensormap dump %s %s%s", quoted(s.answer.From), quoted(t.Name()+slice), as)
}

// quoted quotes an argument for a shell, unless it needs no quotes. It escapes all that shows as no character: a terminal into
// which the line is pasted would take some for keys.
func quoted(arg string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("./_-:", r))
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) {
		return arg
	}
	if !strings.ContainsFunc(arg, isUnseen) {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var out strings.Builder
	out.WriteString("$'")
	for _, r := range arg {
		switch {
		case isUnseen(r):
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&out, `\x%02x`, c)
			}
		case r == '\'', r == '\\':
			out.WriteByte('\\')
			fallthrough
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('\'')
	return out.String()
}

// isUnseen reports whether r shows as no character of its own.
func isUnseen(r rune) bool { return !unicode.IsPrint(r) }
