package apr2

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/findings"
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
	a := newAudit(f.index)
	a.footer(f, in)
	a.flags(f.Header.Flags)
	a.alignment(f.Header.Flags&(Aligned64|Aligned32) != 0)
	a.Gaps(f.index, mostPadding+1)
	a.metadata(f, in)
	return a.All()
}

// mostPadding is how many bytes the alignment of what comes next can take.
const mostPadding = defaultAlign - 1

// audit is what Audit has found in a file with either header.
type audit struct {
	findings.List
	index *layout.Index
}

func newAudit(ix *layout.Index) audit { return audit{findings.New(layout.APR2), ix} }

func (a *audit) footer(f *File, in layout.Input) {
	b, err := f.footer(in)
	if err != nil {
		a.Fail(err)
		return
	}
	size := a.index.Size
	at := size - footerSize
	if m := b[4:8]; string(m) != magicEnd {
		a.Fail(errorf(at+4, "magic_end", layout.ErrInvalid, "%q, not %q", m, magicEnd))
	}
	if stated := le.Uint64(b[8:]); stated != size {
		a.Fail(errorf(at+8, "file_size", layout.ErrInvalid, "%d, but the file has %d bytes", stated, size))
	}
}

func (a *audit) flags(flags Flags) {
	compressed := slices.ContainsFunc(a.index.Tensors, func(t layout.Tensor) bool { return t.Encoding == layout.LZ4 })
	if compressed != flags.Has(Compressed) {
		a.Warn(atFlags, "flags", layout.ErrInvalid, "%v, but that a tensor is compressed is %t", flags, compressed)
	}
	if flags.Has(Signed) {
		a.Warn(atFlags, "flags", layout.ErrUnsupported, "%v: the signature is not checked, the draft gives it no layout", flags)
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
		a.Add(errorf(t.Offset, "offset", layout.ErrMisaligned, "tensor %s: %d is no multiple of %d", layout.Quote(t.Name), t.Offset, align), !promised)
	}
}

func (a *audit) metadata(f *File, in layout.Input) {
	md, err := f.Metadata(in)
	if err != nil {
		a.Fail(err)
		return
	}
	at := uint64(f.Header.MetadataOffset)
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		if _, ok := md.Get(key); !ok {
			a.Warn(at, key, layout.ErrInvalid, "the required key is missing")
		}
	}
	if s, ok := md.Get("architecture"); ok {
		if _, ok := s.(layout.Metadata); !ok {
			a.Warn(at, "architecture", layout.ErrInvalid, "%s is not an object", layout.Quote(asJSON(s)))
		}
	}
	_, err = f.Scales(md)
	a.Fail(err)
}
