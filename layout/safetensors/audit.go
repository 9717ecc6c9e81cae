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
	if f.header%8 != 0 {
		found.Warn(0, "header_size", layout.ErrMisaligned, "%d is not a multiple of 8, so the data starts at %d", f.header, sizeBytes+f.header)
	}
	if first, n := f.misaligned(); n > 0 {
		found.Warn(first.Offset, offsetsField, layout.ErrMisaligned, "%d of %d tensors must be copied to be viewed, the first is %s (%s at %d)",
			n, len(f.index.Tensors), layout.Quote(first.Name), first.DType, first.Offset)
	}
	return found.All()
}

func (f *File) misaligned() (first *layout.Tensor, n int) {
	for i := range f.index.Tensors {
		t := &f.index.Tensors[i]
		if t.Stored == 0 || f.index.Aligned(t) {
			continue
		}
		if n++; n == 1 {
			first = t
		}
	}
	return first, n
}
