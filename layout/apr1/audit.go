package apr1

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns the CRC32 that ends the file. It covers everything before it.
func (f *File) Checksums(in layout.Input) ([]layout.Checksum, error) {
	return layout.ChecksumAt(in, layout.APR1, f.index.Size-crcSize)
}

// Audit parses the metadata. It warns of names that a writer has cut and of bytes that
// belong to nothing. It does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	found := findings.New(layout.APR1)
	for _, i := range f.cutNames {
		at := f.index.Sections[0].Size + entrySize*uint64(i) // behind the header
		found.Warn(at, "name", layout.ErrInvalid, "tensor %s: the name was cut inside its last character", layout.Quote(f.index.Tensors[i].Name))
	}
	found.Gaps(f.index, 1)
	_, err := f.Metadata(in)
	found.Fail(err)
	return found.All()
}
