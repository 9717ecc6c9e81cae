package safetensors

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Metadata returns __metadata__: strings in the order of the file. It is nil if the file has
// none.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	at := f.metadata.Offset
	if f.metadata.Size == 0 {
		return nil, nil
	}
	b, err := layout.Region(in, layout.SafeTensors, at, metadataKey, at, f.metadata.Size)
	if err != nil {
		return nil, err
	}
	text := string(b) // which does not change between the two readings
	s := jsontext.New(text, layout.SafeTensors, at, metadataKey, f.lim)
	if readStrings(&s); s.Err() != nil || text[0] != '{' {
		return nil, s.Err()
	}
	return jsontext.Parse(text, layout.SafeTensors, at, metadataKey, f.lim)
}
