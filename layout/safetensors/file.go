package safetensors

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/findings"
)

// Index describes the tensors, in the order of the header.
func (f *File) Index() *layout.Index { return f.index }

// Metadata is __metadata__: strings in the order of the file, nil where the file has none.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	if f.metadata.size == 0 {
		return nil, nil
	}
	b, err := layout.Region(in, layout.SafeTensors, f.metadata.off, metadataKey, f.metadata.off, f.metadata.size)
	if err != nil {
		return nil, err
	}
	s := scanner{b: b, base: f.metadata.off}
	var md layout.Metadata
	if err := s.strings(&md); err != nil {
		return nil, withField(err, metadataKey)
	}
	return md, nil
}

// strings reads an object of strings, or null, into md, if md is not nil.
func (s *scanner) strings(md *layout.Metadata) error {
	if s.next() == 'n' && s.skip("null") {
		return nil
	}
	return s.object("an object of strings", func(k key) error {
		if s.next() != '"' {
			return s.unexpected("the string of key " + layout.Quote(k.name))
		}
		v, err := s.text()
		if err == nil && md != nil {
			*md = append(*md, layout.Entry{Key: string(k.name), Value: string(v)})
		}
		return err
	})
}

// Checksums is empty: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit warns of a header of an odd size and of tensors that a typed view must copy.
func (f *File) Audit(layout.Input) []layout.Finding {
	found := findings.New(layout.SafeTensors)
	if f.header%8 != 0 {
		found.Warn(0, "header_size", layout.ErrMisaligned, "%d is not a multiple of 8, so the data starts at %d", f.header, sizeBytes+f.header)
	}
	if first, n := f.misaligned(); n > 0 {
		found.Warn(first.Offset, "data_offsets", layout.ErrMisaligned, "%d of %d tensors must be copied to be viewed, the first is %s (%s at %d)",
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
