package survey

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Findings returns what is wrong or odd with the values that Stats has gone through, as
// [loader.Model.Verify] does with the rest of a model: one finding for each such tensor, in their
// order. A NaN, an infinity or damage is an error; a tensor all of whose values are zero has a
// warning. The error is about a tensor that could not be read.
func Findings(m *loader.Model, list []TensorStats) (found []loader.Finding, err error) {
	files := m.Files()
	for i := range list {
		s := &list[i]
		t := s.Tensor
		warning, damage := false, new(layout.FormatError)
		values := func(format string, args ...any) *layout.FormatError {
			return layout.Errorf(m.Format(), t.Offset(), "values", layout.ErrInvalid, format, args...)
		}
		switch {
		case errors.Is(s.Err, loader.ErrUnsupported):
			continue // a type without values
		case errors.As(s.Err, &damage):
			about := *damage
			damage = &about
		case s.Err != nil:
			return nil, s.Err
		case s.NaN+s.PosInf+s.NegInf > 0:
			damage = values("%s among %d values", oddities(s), t.Elements())
		case s.Zeros > 0 && s.Zeros == t.Elements():
			damage, warning = values("all %d values are zero", s.Zeros), true
		default:
			continue
		}
		damage.Reason = "tensor " + layout.Quote([]byte(t.Name())) + ", " + damage.Reason
		found = append(found, loader.Finding{File: files[t.File()].Path, Finding: layout.Finding{FormatError: damage, Warning: warning}})
	}
	return found, nil
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
