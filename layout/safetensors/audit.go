package safetensors

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns none: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit warns of a header of an odd size and of tensors that a typed view must copy.
func (f *File) Audit(layout.Input) []layout.Finding {
	found := findings.New(layout.SafeTensors)
	if f.indented > 0 {
		found.Warn(sizeBytes, headerField, layout.ErrInvalid, "%d bytes of white space before '{', which the format's README does not allow", f.indented)
	}
	if f.header%8 != 0 {
		found.Warn(0, "header_size", layout.ErrMisaligned, "%d is not a multiple of 8, so the data starts at %d", f.header, sizeBytes+f.header)
	}
	tensors := f.index.Tensors
	n, first := findings.Count(len(tensors), func(i int) bool { return tensors[i].Stored > 0 && !f.index.Aligned(&tensors[i]) })
	if n > 0 {
		t := &tensors[first]
		found.Warn(t.Offset, offsetsField, layout.ErrMisaligned, "%d of %d tensors must be copied to be viewed, the first is %s (%s at %d)",
			n, len(tensors), layout.Quote(t.Name), t.DType, t.Offset)
	}
	return found.All()
}
