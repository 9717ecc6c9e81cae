package loader

import "github.com/tensormap/tensormap/layout"

// Metadata is what the files say about the model, parsed on first use. It must not be
// modified. Of a sharded model it is
//
//   - the key metadata of an APR2 manifest, or the first shard's metadata where the manifest
//     has none
//   - the first shard's metadata, and the keys of metadata of a SafeTensors index
//   - the metadata of the first file of a GGUF split.
func (m *Model) Metadata() (layout.Metadata, error) {
	if !m.gate.enter() {
		return nil, m.closedError()
	}
	defer m.leave()
	return m.parsedMetadata()
}

// Metadata is Model.Metadata through the lease.
func (l *Lease) Metadata() (layout.Metadata, error) {
	if !l.gate.enter() {
		return nil, l.closedError()
	}
	defer l.leave()
	return l.model.parsedMetadata()
}

func (m *Model) parsedMetadata() (layout.Metadata, error) {
	md := m.parseMetadata()
	return md.keys, md.err
}

// parseMetadata is the metadata of the model. The caller holds the mappings, here and below.
func (m *Model) parseMetadata() *metadata {
	if m.manifest == nil {
		return m.files[0].parseMetadata()
	}
	if md := m.metadata.done.Load(); md != nil {
		return md
	}
	return m.metadata.parse(m.path, func(md *metadata) error {
		var first layout.Metadata
		if !m.manifest.Complete() {
			own := m.files[0].parseMetadata()
			if own.err != nil {
				return own.err
			}
			first = own.keys
		}
		var err error
		if md.keys, err = m.manifest.Describe(first); err != nil {
			return err
		}
		return md.setScales(m.files[0].layout)
	})
}

// parseMetadata is the metadata of the file alone.
func (f *file) parseMetadata() *metadata {
	if md := f.metadata.done.Load(); md != nil {
		return md
	}
	return f.metadata.parse(f.path, func(md *metadata) (err error) {
		if md.keys, err = f.layout.Metadata(f.mapping); err != nil {
			return err
		}
		return md.setScales(f.layout)
	})
}

// scale is what metadata says of the scale of one of the file's tensors: the file's own,
// and where that says nothing, the model's.
func (f *file) scale(name string) (q layout.Quant, scaled bool, err error) {
	md := f.parseMetadata()
	if q, scaled = md.scales[name]; scaled || md.err != nil || f.model.manifest == nil {
		return q, scaled, md.err
	}
	md = f.model.parseMetadata()
	q, scaled = md.scales[name]
	return q, scaled, md.err
}
