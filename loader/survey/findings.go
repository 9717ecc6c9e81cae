package survey

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
	"github.com/tensormap/tensormap/loader"
)

// Findings collects what is wrong or odd with the values of a model: [loader.Model.Verify] does so
// with the rest of it. A NaN, an infinity or damage is an error, and a tensor of zeros alone a
// warning. Beyond a hundred of a kind in a file, findings are only counted.
type Findings struct {
	format layout.Format
	files  []loader.FileInfo
	lists  []findings.List // of each file
}

// NewFindings returns an empty list for m.
func NewFindings(m *loader.Model) *Findings {
	l := &Findings{format: m.Format(), files: m.Files()}
	for range l.files {
		l.lists = append(l.lists, findings.New(l.format))
	}
	return l
}

// Add adds at most one finding about the tensor of s: damage, values that are not finite, or zeros alone. If s.Err says that the type has
// no values, it adds none and returns nil. It returns any other s.Err that is no damage.
func (l *Findings) Add(s *TensorStats) error {
	t, damage := s.Tensor, new(layout.FormatError)
	list, name := &l.lists[t.File()], layout.Quote(t.Name())
	switch {
	case errors.Is(s.Err, loader.ErrUnsupported): // a type without values is no error
	case errors.As(s.Err, &damage):
		named := *damage
		named.Reason = "tensor " + name + ", " + named.Reason
		list.Add(&named, findings.Failure)
	case s.Err != nil:
		return s.Err
	case s.NaN+s.PosInf+s.NegInf > 0:
		list.Add(layout.Errorf(l.format, t.Offset(), "values", layout.ErrInvalid, "tensor %s, %s among %d values", name, notFiniteText(s), t.Elements()), findings.Failure)
	case s.Zeros > 0 && s.Zeros == t.Elements():
		list.Warn(t.Offset(), "values", nil, "tensor %s, all %d values are zero", name, s.Zeros)
	}
	return nil
}

// All returns the findings in the order of the files and their tensors. For a file with more findings than are stored, the last one says
// how many others there are.
func (l *Findings) All() (all []loader.Finding) {
	for i := range l.lists {
		for _, f := range l.lists[i].All() {
			all = append(all, loader.Finding{File: l.files[i].Path, Finding: f})
		}
	}
	return all
}

// notFiniteText returns the numbers of values that are not finite as text, such as "3 NaN, 1 +Inf".
func notFiniteText(s *TensorStats) string {
	var counts []string
	for what, n := range []uint64{s.NaN, s.PosInf, s.NegInf} {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, [...]string{"NaN", "+Inf", "-Inf"}[what]))
		}
	}
	return strings.Join(counts, ", ")
}
