package bw2l

import (
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is empty: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit reads the metadata, and warns of texts that are not valid UTF-8, of sections of
// unknown types and of bytes behind the last section.
func (f *File) Audit(in layout.Input) []layout.Finding {
	var a audit
	r := f.reader(in)
	r.metadata()
	if fe := (*layout.FormatError)(nil); errors.As(r.err, &fe) { // as all errors of this package are
		a = append(a, layout.Finding{FormatError: fe})
	}
	if r.odd.n > 0 {
		a.warn(r.odd.at, r.odd.field, layout.ErrInvalid, "not valid UTF-8; there are %d such texts in all", r.odd.n)
	}
	for _, s := range f.Sections {
		if !slices.Contains(types, s.Type) {
			a.warn(s.Offset, "type", layout.ErrUnsupported, "section %s has the unknown type %s",
				layout.Quote([]byte(s.Name)), layout.Quote([]byte(s.Type)))
		}
	}
	if n := f.index.Size - f.end; n > 0 {
		a.warn(f.end, "trailing", layout.ErrInvalid, "%d bytes behind the last section", n)
	}
	return a
}

type audit []layout.Finding

func (a *audit) warn(at uint64, field string, sentinel error, format string, args ...any) {
	*a = append(*a, layout.Finding{FormatError: layout.Errorf(layout.BW2L, at, field, sentinel, format, args...), Warning: true})
}
