package apr2

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns the CRC32 in the footer, which covers everything before the footer.
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

// Audit checks the footer, the alignment and flags that the header promises, the metadata, and that
// gaps are padding. It does not compute the CRC32, and does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{findings.New(layout.APR2), f.index}
	a.footer(f, in)
	a.flags(f.Header.Flags)
	a.Misaligned(f.index, f.Header.Flags&(Aligned64|Aligned32) != 0)
	a.Gaps(f.index, defaultAlign) // less is the padding of what comes next
	a.metadata(f, in)
	return a.All()
}

// audit collects the findings of Audit.
type audit struct {
	findings.List
	index *layout.Index
}

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
	compressed := slices.ContainsFunc(a.index.Tensors, func(t layout.Tensor) bool { return t.Encoding.Unsealed() == layout.LZ4 })
	if compressed != flags.Has(Compressed) {
		a.Warn(atFlags, "flags", layout.ErrInvalid, "%v, but that a tensor is compressed is %t", flags, compressed)
	}
	if flags.Has(Signed) {
		a.Warn(atFlags, "flags", layout.ErrUnsupported, "%v: the signature is not checked without a trusted key", flags)
	}
	if flags.Has(Encrypted) {
		a.Warn(atFlags, encryptionKey, layout.ErrUnsupported, "%v: neither the head nor the tensors are checked without the key", flags)
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
