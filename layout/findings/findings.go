// Package findings collects what the audit of a file finds.
package findings

import (
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// limit is how many findings about one field are listed. A file of a few megabytes can have
// a hundred thousand things wrong with it, all alike.
const limit = 100

// List collects the findings of an audit.
type List struct {
	format layout.Format
	all    []layout.Finding
	fields []field
}

// field counts findings about a field that weigh alike.
type field struct {
	name   string
	weight Weight
	n      int
	more   *layout.FormatError // the first one that is not listed
}

// New returns an empty list for a file of a format.
func New(f layout.Format) List { return List{format: f} }

// Weight says whether verification of a file fails for a finding.
type Weight bool

// The weights of findings.
const (
	Failure Weight = false // breaks a promise of the file
	Warning Weight = true  // is odd and breaks none
)

// Add adds e as a finding. It is listed if it is among the first hundred of its field and weight.
func (l *List) Add(e *layout.FormatError, w Weight) {
	i := slices.IndexFunc(l.fields, func(f field) bool { return f.name == e.Field && f.weight == w })
	if i < 0 {
		i = len(l.fields)
		l.fields = append(l.fields, field{name: e.Field, weight: w})
	}
	f := &l.fields[i]
	if f.n++; f.n <= limit {
		l.all = append(l.all, layout.Finding{FormatError: e, Warning: bool(w)})
	} else if f.more == nil {
		f.more = e
	}
}

// Fail adds err, an error of a decoder about the file and so a *[layout.FormatError]. A nil err
// adds nothing.
func (l *List) Fail(err error) {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		l.Add(e, Failure)
	}
}

// Warn adds a warning of something odd that breaks no promise.
func (l *List) Warn(at uint64, field string, sentinel error, format string, args ...any) {
	l.Add(layout.Errorf(l.format, at, field, sentinel, format, args...), Warning)
}

// All returns the findings in the order in which they were added. A field's findings past the
// hundredth are counted in one finding at the end.
func (l *List) All() []layout.Finding {
	all := l.all
	for _, f := range l.fields {
		if f.more != nil {
			e := layout.Errorf(l.format, f.more.Offset, f.name, f.more.Err, "%d more like the %d listed", f.n-limit, limit)
			all = append(all, layout.Finding{FormatError: e, Warning: bool(f.weight)})
		}
	}
	return all
}

// Count returns how many of n things are odd, and which is the first.
func Count(n int, odd func(i int) bool) (count, first int) {
	for i := range n {
		if !odd(i) {
			continue
		}
		if count++; count == 1 {
			first = i
		}
	}
	return count, first
}

// Gaps warns of gaps between the ranges of a file that its index names, from least bytes on. It returns the end of the
// last range.
func (l *List) Gaps(ix *layout.Index, least uint64) (end uint64) {
	for _, p := range ix.FileRanges() {
		if p.Offset > end && p.Offset-end >= least {
			l.Warn(end, "padding", layout.ErrInvalid, "%d bytes belong to no section and no tensor", p.Offset-end)
		}
		end = p.End
	}
	return end
}

// Misaligned adds a finding of weight w for each tensor that does not start at a multiple of the index's alignment.
func (l *List) Misaligned(ix *layout.Index, w Weight) {
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; t.Stored > 0 && t.Offset%ix.Align != 0 {
			l.Add(layout.Errorf(l.format, t.Offset, "offset", layout.ErrMisaligned, "tensor %s: %d is no multiple of %d", layout.Quote(t.Name), t.Offset, ix.Align), w)
		}
	}
}
