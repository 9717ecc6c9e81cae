package manifest

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Metadata parses what the manifest itself says about the model. [File.Describe] joins it
// with what the shards say.
func (m *File) Metadata(layout.Input) (layout.Metadata, error) {
	if !m.hasMetadata {
		return nil, nil
	}
	at := jsontext.Locate(m.text, "metadata")
	s := jsontext.New(m.text[at:], layout.Manifest, at, "metadata", m.lim)
	s.Skip()
	return jsontext.Parse(m.text[at:s.Offset()], layout.Manifest, at, "metadata", m.lim)
}

// Complete reports whether Metadata is all there is to know of the model, so that no shard
// need be asked.
func (m *File) Complete() bool { return m.hasMetadata && m.Of == layout.APR2 }

// Describe returns the metadata of the model, given the metadata of its first shard. If Complete is
// true, it does not look at that.
func (m *File) Describe(first layout.Metadata) (layout.Metadata, error) {
	own, err := m.Metadata(nil)
	if m.Complete() || err != nil {
		return own, err
	}
	md := slices.Clone(first)
	md.Merge(own)
	return md, nil
}
