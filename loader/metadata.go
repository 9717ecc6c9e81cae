package loader

import (
	"context"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Metadata returns the files' metadata of the model, parsed on first use. It must not be modified.
// For a sharded model it is
//
//   - the key metadata of an APR2 manifest, or the first shard's metadata if the manifest
//     has none
//   - the first shard's metadata, and the keys under "metadata" of a SafeTensors index
//   - the metadata of the first file of a GGUF split.
func (m *Model) Metadata() (layout.Metadata, error) {
	return readWhileOpen(context.Background(), m, metadataOf)
}

// Metadata does what Model.Metadata does, through the lease.
func (l *Lease) Metadata() (layout.Metadata, error) {
	return readWhileOpen(context.Background(), l, metadataOf)
}

// metadataOf returns the metadata of m, which the first call parses. It fails if they cannot be read or parsed. The caller holds the
// model open.
func metadataOf(ctx context.Context, m *Model) (layout.Metadata, error) {
	md := m.parseMetadata(ctx)
	return md.keys, md.err
}

// parseMetadata returns the metadata of the model, and the scales of tensors in them. The first call parses both. Without a manifest
// it returns the first file's. With one, it returns what the manifest makes of its own keys and, unless it is complete, of the first
// file's metadata. An error is in the err of the result. The caller holds the model open.
func (m *Model) parseMetadata(ctx context.Context) *metadata {
	if m.manifest == nil {
		return m.files[0].parseMetadata(ctx)
	}
	return m.metadata.parse(ctx, m.path, func(md *metadata) error {
		var first layout.Metadata
		if !m.manifest.Complete() {
			own := m.files[0].parseMetadata(ctx)
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

// parseMetadata returns the metadata of this file alone, and the scales of tensors in them. The first call parses both. An error is
// in the err of the result.
func (f *file) parseMetadata(ctx context.Context) *metadata {
	return f.metadata.parse(ctx, f.path, func(md *metadata) (err error) {
		if md.keys, err = f.layout.Metadata(f.inputWithHead(ctx)); err != nil {
			return err
		}
		return md.setScales(f.layout)
	})
}

// inputWithHead returns the file's bytes for parsing metadata. If the first bytes were verified when the file was opened, the result
// has these in memory and does not read them again.
func (f *file) inputWithHead(ctx context.Context) layout.Input {
	if f.verifiedHead == nil {
		return f.data.Input(ctx)
	}
	return &inputWithBytes{f.data.Input(ctx), 0, f.verifiedHead}
}

// scaledByMetadata reports whether the scale of the file's tensor desc can be in metadata only. It can if the tensor has signed
// integers, the file's table has no scale for it, and the format has scales in metadata.
func (f *file) scaledByMetadata(desc *layout.Tensor) bool {
	_, ok := f.layout.(layout.Scaler)
	return ok && desc.Quant == nil && desc.DType.Kind() == layout.KindInt
}

// scale returns the scale of the file's tensor desc. It looks in the file's table, then in the file's metadata, and then in those of
// the model if that has a manifest. scaled is false if none has a scale. It fails if metadata cannot be parsed.
func (f *file) scale(ctx context.Context, desc *layout.Tensor) (q layout.Quant, scaled bool, err error) {
	if !f.scaledByMetadata(desc) {
		if desc.Quant == nil {
			return q, false, nil
		}
		return *desc.Quant, true, nil
	}
	name := mmapio.String(desc.Name)
	md := f.parseMetadata(ctx)
	if q, scaled = md.scales[name]; scaled || md.err != nil || f.model.manifest == nil {
		return q, scaled, md.err
	}
	md = f.model.parseMetadata(ctx)
	q, scaled = md.scales[name]
	return q, scaled, md.err
}
