package apr1

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is the CRC32 that ends the file, and covers all before it.
func (f *File) Checksums(in layout.Input) ([]layout.Checksum, error) {
	at := f.index.Size - crcSize
	b, err := layout.Region(in, layout.APR1, at, "crc32", at, crcSize)
	if err != nil {
		return nil, err
	}
	return []layout.Checksum{{Field: "crc32", At: at, Offset: 0, Size: at, Want: le.Uint32(b)}}, nil
}

// Audit parses the metadata, and looks for names that a writer has cut and for bytes that
// belong to nothing. It does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{file: f}
	a.names()
	a.gaps()
	a.metadata(in)
	return a.findings
}

type audit struct {
	file     *File
	findings []layout.Finding
}

func (a *audit) warn(at uint64, field string, sentinel error, format string, args ...any) {
	a.findings = append(a.findings, layout.Finding{FormatError: errorf(at, field, sentinel, format, args...), Warning: true})
}

func (a *audit) names() {
	index := uint64(headSize)
	if a.file.Container == Late {
		index = lateHeadSize
	}
	for _, i := range a.file.cut {
		name := layout.Quote(a.file.index.Tensors[i].Name)
		a.warn(index+entrySize*uint64(i), "name", layout.ErrInvalid, "tensor %s: the name was cut inside its last character", name)
	}
}

func (a *audit) gaps() {
	end := uint64(0)
	for _, s := range a.spans() {
		if s.Offset > end {
			a.warn(end, "padding", layout.ErrInvalid, "%d bytes belong to no section and no tensor", s.Offset-end)
		}
		end = s.Offset + s.Size
	}
}

// spans are all parts of the file in the order of their offsets. They do not overlap,
// and the last one is the checksum, which ends the file.
func (a *audit) spans() []layout.Section {
	ix := a.file.index
	spans := make([]layout.Section, 0, len(ix.Sections)+len(ix.Tensors))
	spans = append(spans, ix.Sections...)
	for _, t := range ix.Tensors {
		spans = append(spans, layout.Section{Offset: t.Offset, Size: t.Stored})
	}
	spans = slices.DeleteFunc(spans, func(s layout.Section) bool { return s.Size == 0 })
	slices.SortFunc(spans, func(x, y layout.Section) int { return cmp.Compare(x.Offset, y.Offset) })
	return spans
}

func (a *audit) metadata(in layout.Input) {
	_, err := a.file.Metadata(in)
	var fe *layout.FormatError
	if errors.As(err, &fe) { // as all errors of this package are
		a.findings = append(a.findings, layout.Finding{FormatError: fe})
	}
}
