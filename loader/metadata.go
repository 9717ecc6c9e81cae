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
	return readWhileOpen(context.Background(), m, nil, m.metadataKeys)
}

// Metadata does what Model.Metadata does, through the lease.
func (l *Lease) Metadata() (layout.Metadata, error) {
	return readWhileOpen(context.Background(), l.model, l, l.model.metadataKeys)
}

// metadataKeys returns the keys of the model's metadata, as parseMetadata does. It fails if the metadata cannot be read or parsed. The
// caller holds the model open.
func (m *Model) metadataKeys(ctx context.Context) (layout.Metadata, error) {
	md, err := m.parseMetadata(ctx)
	if err != nil {
		return nil, err
	}
	return md.keys, nil
}

// parseMetadata returns the metadata of the model. The first call reads and parses it, and later calls return the same: see parsedOnce.
// Without a manifest it is the first file's metadata. With one, it is what manifest.Describe makes of the manifest's keys and the first
// file's metadata. For a complete manifest parseMetadata reads no file. It fails if the metadata of a file cannot be read, or is malformed.
// The caller holds the model open.
func (m *Model) parseMetadata(ctx context.Context) (*metadata, error) {
	first := m.files[0]
	if m.manifest == nil {
		return first.parseMetadata(ctx)
	}
	return m.metadata.parse(ctx, m.path, first.layout, func(ctx context.Context) (layout.Metadata, error) {
		if m.manifest.Complete() {
			return m.manifest.Describe(nil)
		}
		own, err := first.parseMetadata(ctx)
		if err != nil {
			return nil, err
		}
		return m.manifest.Describe(own.keys)
	})
}

// parseMetadata returns the metadata of this file alone. It fails if they cannot be read, or are malformed.
func (f *file) parseMetadata(ctx context.Context) (*metadata, error) {
	return f.metadata.parse(ctx, f.path, f.layout, func(ctx context.Context) (layout.Metadata, error) {
		return f.layout.Metadata(f.input(ctx))
	})
}

// scaledByMetadata reports whether the scale of the file's tensor desc can be in metadata only. It can if the tensor has signed
// integers, the file's table has no scale for it, and the format has scales in metadata.
func (f *file) scaledByMetadata(desc *layout.Tensor) bool {
	_, ok := f.layout.(layout.Scaler)
	return ok && desc.Quant == nil && desc.DType.Kind() == layout.KindInt
}

// scale returns the scale of the file's tensor desc. It looks in the file's table, then in the file's metadata, and then in the metadata of
// the model if that has a manifest. scaled is false if none has a scale. It fails if metadata cannot be parsed.
func (f *file) scale(ctx context.Context, desc *layout.Tensor) (q layout.Quant, scaled bool, err error) {
	if !f.scaledByMetadata(desc) {
		if desc.Quant == nil {
			return q, false, nil
		}
		return *desc.Quant, true, nil
	}
	name := mmapio.String(desc.Name)
	md, err := f.parseMetadata(ctx)
	if err == nil && f.model.manifest != nil {
		if q, scaled = md.scales[name]; !scaled {
			md, err = f.model.parseMetadata(ctx)
		}
	}
	if err != nil {
		return q, false, err
	}
	q, scaled = md.scales[name]
	return q, scaled, nil
}
