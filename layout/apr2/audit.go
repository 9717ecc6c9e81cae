package apr2

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is the CRC32 in the footer, which covers everything before the footer.
func (f *File) Checksums(in layout.Input) ([]layout.Checksum, error) {
	b, err := f.footer(in)
	if err != nil {
		return nil, err
	}
	at := f.index.Size - footerSize
	return []layout.Checksum{{Field: "crc32", At: at, Offset: 0, Size: at, Want: le.Uint32(b)}}, nil
}

func (f *File) footer(in layout.Input) ([]byte, error) {
	at := f.index.Size - footerSize
	return layout.Region(in, layout.APR2, at, "footer", at, footerSize)
}

// Audit checks the footer (but not its CRC32, which Checksums hands out), the alignment
// and flags that the header promises, the metadata, and that nothing but padding lies
// between what the file describes. It does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{index: f.index}
	a.footer(f, in)
	a.flags(f.Header.Flags)
	a.alignment(f.Header.Flags&(Aligned64|Aligned32) != 0)
	a.gaps()
	a.metadata(f, in)
	return a.findings
}

type audit struct {
	index    *layout.Index
	findings []layout.Finding
}

func (a *audit) fail(err error) {
	var fe *layout.FormatError
	if err != nil && errors.As(err, &fe) { // as all errors of this package are
		a.findings = append(a.findings, layout.Finding{FormatError: fe})
	}
}

func (a *audit) warn(at uint64, field string, sentinel error, format string, args ...any) {
	a.findings = append(a.findings, layout.Finding{FormatError: errorf(at, field, sentinel, format, args...), Warning: true})
}

func (a *audit) footer(f *File, in layout.Input) {
	b, err := f.footer(in)
	if err != nil {
		a.fail(err)
		return
	}
	size := a.index.Size
	at := size - footerSize
	if m := b[4:8]; string(m) != magicEnd {
		a.fail(errorf(at+4, "magic_end", layout.ErrInvalid, "%q, not %q", m, magicEnd))
	}
	if stated := le.Uint64(b[8:]); stated != size {
		a.fail(errorf(at+8, "file_size", layout.ErrInvalid, "%d, but the file has %d bytes", stated, size))
	}
}

func (a *audit) flags(flags Flags) {
	compressed := slices.ContainsFunc(a.index.Tensors, func(t layout.Tensor) bool { return t.Encoding == layout.LZ4 })
	if compressed != flags.Has(Compressed) {
		a.warn(atFlags, "flags", layout.ErrInvalid, "%v, but that a tensor is compressed is %t", flags, compressed)
	}
	if flags.Has(Signed) {
		a.warn(atFlags, "flags", layout.ErrUnsupported, "%v: the signature is not checked, the draft gives it no layout", flags)
	}
}

// alignment fails tensors that are not where the file promises them, and warns of those that
// it does not promise.
func (a *audit) alignment(promised bool) {
	align := a.index.Align
	for _, t := range a.index.Tensors {
		if t.Stored == 0 || t.Offset%align == 0 {
			continue
		}
		err := errorf(t.Offset, "offset", layout.ErrMisaligned, "tensor %s: %d is no multiple of %d", layout.Quote(t.Name), t.Offset, align)
		a.findings = append(a.findings, layout.Finding{FormatError: err, Warning: !promised})
	}
}

// gaps warns of bytes that belong to nothing and are more than padding needs.
func (a *audit) gaps() {
	end := uint64(0)
	for _, s := range a.spans() {
		if s.Offset-end >= defaultAlign {
			a.warn(end, "padding", layout.ErrInvalid, "%d bytes belong to no section and no tensor", s.Offset-end)
		}
		end = s.Offset + s.Size
	}
}

// spans are all parts of the file in the order of their offsets. They do not overlap,
// and the last one is the footer, which ends the file.
func (a *audit) spans() []layout.Section {
	ix := a.index
	spans := make([]layout.Section, 0, len(ix.Sections)+len(ix.Tensors))
	spans = append(spans, ix.Sections...)
	for _, t := range ix.Tensors {
		spans = append(spans, layout.Section{Offset: t.Offset, Size: t.Stored})
	}
	spans = slices.DeleteFunc(spans, func(s layout.Section) bool { return s.Size == 0 })
	slices.SortFunc(spans, func(x, y layout.Section) int { return cmp.Compare(x.Offset, y.Offset) })
	return spans
}

func (a *audit) metadata(f *File, in layout.Input) {
	md, err := f.Metadata(in)
	if err != nil {
		a.fail(err)
		return
	}
	at := uint64(f.Header.MetadataOffset)
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		if _, ok := md.Get(key); !ok {
			a.warn(at, key, layout.ErrInvalid, "the required key is missing")
		}
	}
	if s, ok := md.Get("architecture"); ok {
		if _, ok := s.(layout.Metadata); !ok {
			a.warn(at, "architecture", layout.ErrInvalid, "%s is not an object", layout.Quote(asJSON(s)))
		}
	}
	_, err = f.Scales(md)
	a.fail(err)
}
