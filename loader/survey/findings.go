package survey

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// mostFindings is the number of findings of a kind that Findings lists.
const mostFindings = 100

// Findings collects what is wrong or odd with the values of a model, as [loader.Model.Verify] does
// with the rest of it. A NaN, an infinity or damage is an error. A tensor of zeros alone has a
// warning. Beyond a hundred of a kind, findings are counted.
type Findings struct {
	model *loader.Model
	files []loader.FileInfo
	all   []loader.Finding
	kinds [2]struct { // errors, warnings
		n    int
		next loader.Finding // the first that is not listed
	}
}

// NewFindings returns an empty list for m.
func NewFindings(m *loader.Model) *Findings { return &Findings{model: m, files: m.Files()} }

// Add adds what Stats has found out about one tensor. The error is about a tensor that could not
// be read.
func (l *Findings) Add(s *TensorStats) error {
	t := s.Tensor
	about := func(sentinel error, format string, args ...any) *layout.FormatError {
		return layout.Errorf(l.model.Format(), t.Offset(), "values", sentinel, format, args...)
	}
	var damage *layout.FormatError
	switch {
	case errors.Is(s.Err, loader.ErrUnsupported): // a type without values
	case errors.As(s.Err, &damage):
		l.list(t, *damage, false)
	case s.Err != nil:
		return s.Err
	case s.NaN+s.PosInf+s.NegInf > 0:
		l.list(t, *about(layout.ErrInvalid, "%s among %d values", oddities(s), t.Elements()), false)
	case s.Zeros > 0 && s.Zeros == t.Elements():
		l.list(t, *about(nil, "all %d values are zero", s.Zeros), true)
	}
	return nil
}

func (l *Findings) list(t loader.Tensor, e layout.FormatError, warning bool) {
	e.Reason = "tensor " + layout.Quote([]byte(t.Name())) + ", " + e.Reason
	f := loader.Finding{File: l.files[t.File()].Path, Finding: layout.Finding{FormatError: &e, Warning: warning}}
	kind := &l.kinds[one(warning)]
	switch kind.n++; {
	case kind.n <= mostFindings:
		l.all = append(l.all, f)
	case kind.n == mostFindings+1:
		kind.next = f
	}
}

// All returns the findings in the order of the tensors, and behind them the number of the others.
func (l *Findings) All() []loader.Finding {
	all := slices.Clip(l.all)
	for _, kind := range l.kinds {
		if more := kind.n - mostFindings; more > 0 {
			kind.next.FormatError.Reason = fmt.Sprintf("%d more like the %d listed", more, mostFindings)
			all = append(all, kind.next)
		}
	}
	return all
}

// oddities counts the values that are not finite: "3 NaN, 1 +Inf".
func oddities(s *TensorStats) string {
	var counts []string
	for what, n := range []uint64{s.NaN, s.PosInf, s.NegInf} {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, [...]string{"NaN", "+Inf", "-Inf"}[what]))
		}
	}
	return strings.Join(counts, ", ")
}
