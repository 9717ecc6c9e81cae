package apr2

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns the CRC32 in the footer, which covers everything before the footer.
func (f *File) Checksums(in layout.Input) ([]layout.Checksum, error) {
	return layout.ChecksumAt(in, layout.APR2, f.index.Size-footerSize)
}

// Audit checks the footer, the alignment and flags that the header promises, the metadata, and that
// gaps are padding. It does not compute the CRC32, and does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	md, err := f.Metadata(in)
	found := findings.New(layout.APR2)
	f.auditFooter(&found, in)
	flags := f.Header.Flags
	compressed := slices.ContainsFunc(f.index.Tensors, func(t layout.Tensor) bool { return t.Encoding.Decrypted() == layout.LZ4 })
	if compressed != flags.Has(Compressed) {
		found.Warn(atFlags, "flags", layout.ErrInvalid, "%v, but that a tensor is compressed is %t", flags, compressed)
	}
	if flags.Has(Signed) {
		found.Warn(atFlags, "flags", layout.ErrUnsupported, "%v: the signature is not checked without a trusted key", flags)
	}
	if flags.Has(Encrypted) {
		found.Warn(atFlags, encryptionKey, layout.ErrUnsupported, "%v: neither the head nor the tensors are checked without the key", flags)
	}
	weight := findings.Warning
	if flags&(Aligned64|Aligned32) != 0 { // the file promises alignment
		weight = findings.Failure
	}
	found.Misaligned(f.index, weight)
	found.Gaps(f.index, defaultAlign) // less is the padding of what comes next
	if err != nil {
		found.Fail(err)
		return found.All()
	}
	at := uint64(f.Header.MetadataOffset)
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		v, ok := md.Get(key)
		if _, isObject := v.(layout.Metadata); !ok {
			found.Warn(at, key, layout.ErrInvalid, "the required key is missing")
		} else if key == "architecture" && !isObject {
			found.Warn(at, key, layout.ErrInvalid, "%s is not an object", quoteJSON(v))
		}
	}
	_, err = f.Scales(md)
	found.Fail(err)
	return found.All()
}

// auditFooter compares the footer's magic and size with the file's magic and size.
func (f *File) auditFooter(found *findings.List, in layout.Input) {
	size := f.index.Size
	at := size - footerSize
	b, err := layout.Region(in, layout.APR2, at, "footer", at, footerSize)
	if err != nil {
		found.Fail(err)
		return
	}
	if m := b[4:8]; string(m) != magicEnd {
		found.Fail(errorf(at+4, "magic_end", layout.ErrInvalid, "%q, not %q", m, magicEnd))
	}
	if stated := le.Uint64(b[8:]); stated != size {
		found.Fail(errorf(at+8, "file_size", layout.ErrInvalid, "%d, but the file has %d bytes", stated, size))
	}
}
