// Package findings collects what the audit of a file finds.
package findings

import (
	"cmp"
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
	// The offset of the first one that is not listed, and its sentinel.
	at  uint64
	err error
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

// Add adds e as a finding.
func (l *List) Add(e *layout.FormatError, w Weight) {
	if l.count(e.Field, w, e.Offset, e.Err) {
		l.all = append(l.all, layout.Finding{FormatError: e, Warning: w == Warning})
	}
}

// Fail adds err, an error of a decoder about the file and so a *[layout.FormatError]. A nil err
// adds nothing.
func (l *List) Fail(err error) {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		l.Add(e, Failure)
	}
}

// Warn adds a warning of something odd that breaks no promise. It words the reason only if the
// warning is listed.
func (l *List) Warn(at uint64, field string, sentinel error, format string, args ...any) {
	if l.count(field, Warning, at, sentinel) {
		e := layout.Errorf(l.format, at, field, sentinel, format, args...)
		l.all = append(l.all, layout.Finding{FormatError: e, Warning: true})
	}
}

// count counts a finding about the field called name, at offset at of the file. It reports whether the finding is to be listed: it is
// among the first hundred of that field and weight.
func (l *List) count(name string, w Weight, at uint64, err error) bool {
	i := slices.IndexFunc(l.fields, func(f field) bool { return f.name == name && f.weight == w })
	if i < 0 {
		i = len(l.fields)
		l.fields = append(l.fields, field{name: name, weight: w})
	}
	f := &l.fields[i]
	if f.n++; f.n == limit+1 {
		f.at, f.err = at, err
	}
	return f.n <= limit
}

// All returns the findings in the order in which they were added. A field's findings past the
// hundredth are counted in one finding at the end.
func (l *List) All() []layout.Finding {
	all := l.all
	for _, f := range l.fields {
		if f.n > limit {
			e := layout.Errorf(l.format, f.at, f.name, f.err, "%d more like the %d listed", f.n-limit, limit)
			all = append(all, layout.Finding{FormatError: e, Warning: f.weight == Warning})
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

// Gaps warns of gaps between the parts of a file, from least bytes on. It returns the end of the
// last part.
func (l *List) Gaps(ix *layout.Index, least uint64) (end uint64) {
	for _, s := range parts(ix) {
		if s.Offset > end && s.Offset-end >= least {
			l.Warn(end, "padding", layout.ErrInvalid, "%d bytes belong to no section and no tensor", s.Offset-end)
		}
		end = s.Offset + s.Size
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

// parts returns the sections and tensors that have bytes of their own, in the order of their
// offsets. They do not overlap.
func parts(ix *layout.Index) []layout.Section {
	list := make([]layout.Section, 0, len(ix.Sections)+len(ix.Tensors))
	for _, s := range ix.Sections {
		if s.Size > 0 {
			list = append(list, s)
		}
	}
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; t.Stored > 0 && !t.Alias {
			list = append(list, layout.Section{Offset: t.Offset, Size: t.Stored})
		}
	}
	slices.SortFunc(list, func(x, y layout.Section) int { return cmp.Compare(x.Offset, y.Offset) })
	return list
}
