package aprender

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Metadata parses the metadata section. It is empty if metadata_size is 0. aprender's
// writers may repeat keys, and its readers take the last.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	off, n := f.Header.MetadataOffset, uint64(f.Header.MetadataSize)
	if n == 0 {
		return layout.Metadata{}, nil
	}
	b, err := layout.LimitedRegion(in, layout.APR2, atMetadataSize, "metadata_size", off, n, min(f.lim.HeaderBytes, maxMetadata))
	if err != nil {
		return nil, err
	}
	b = bytes.TrimRight(b, "\x00") // padding, which some writers count in metadata_size
	return jsontext.ParseLastWins(b, layout.APR2, off, "metadata", f.lim)
}
