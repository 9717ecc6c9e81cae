package bw2l

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns nothing: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit reads the metadata, and warns of texts that are not valid UTF-8, of sections of
// unknown types and of bytes behind the last section.
func (f *File) Audit(in layout.Input) []layout.Finding {
	found := findings.New(layout.BW2L)
	r := f.reader(in)
	r.metadata()
	found.Fail(r.err)
	if r.invalid.n > 0 {
		found.Warn(r.invalid.at, r.invalid.field, layout.ErrInvalid, "not valid UTF-8; there are %d such texts in all", r.invalid.n)
	}
	for _, s := range f.Sections {
		if !slices.Contains(types, s.Type) {
			found.Warn(s.Offset, "type", layout.ErrUnsupported, "section %s has the unknown type %s",
				layout.Quote(s.Name), layout.Quote(s.Type))
		}
	}
	if n := f.index.Size - f.end; n > 0 {
		found.Warn(f.end, "trailing", layout.ErrInvalid, "%d bytes behind the last section", n)
	}
	return found.All()
}
