package convert

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
)

// NewPlan decides how m's tensors and metadata are written to path, and returns an error for
// names, types, metadata and sizes that cannot be written. It writes nothing. Tensors that become int8 are read,
// for their scales. A file of m that has changed since it was opened is an error: see
// [loader.Model.Changed].
//
// Elements that are not re-encoded are copied byte for byte. Types that the new format does not
// have are replaced as the package's documentation says; Tensor.Changed names the reason.
//
// An APR2 model larger than Options.ShardBytes becomes shards and a manifest at path, which has the
// metadata. Each shard takes as many tensors as fit, uncompressed and in their order. For model.apr
// the shards are model-00001-of-00004.apr and so on, each an APR2 file with the required
// metadata and its tensors' scales.
//
// Tensors of a SafeTensors file are ordered by the alignment of their types, widest first, since
// the format allows no space between them. Options.DType is F32, F16 or BF16; compressing is
// ErrUnsupported. Shards have the names of Hugging Face: model-00001-of-00004.safetensors and so on
// for model.safetensors. Plan.Path is then the index, model.safetensors.index.json. The first shard
// has the metadata; the others have its key format, without which some readers refuse them. A
// directory must not hold both model.safetensors and its index, since readers differ in which one
// they take. The new model replaces either, unless it is being read.
//
// Shards of GGUF have gguf-split's names and keys: model-00001-of-00004.gguf and so on for model.gguf.
// Plan.Path is then the first, which has the metadata; an old model.gguf goes. Compressing is
// ErrUnsupported.
func NewPlan(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.AcquireContext(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	p := &Plan{Path: path, Format: opts.Format, model: m, lease: lease, opts: *opts}
	defer func() { p.lease = nil }()
	if p.Format == layout.Unknown {
		p.Format = formatOf(path)
	}
	if p.target = targets[p.Format]; p.target == nil {
		return nil, fmt.Errorf("%s: %w: writing %v", path, layout.ErrUnsupported, p.Format)
	}
	if p.opts.BigEndian && p.Format != layout.GGUF {
		return nil, fmt.Errorf("%s: %w: %v in big-endian order", path, layout.ErrUnsupported, p.Format)
	}
	if err := lease.Changed(); err != nil {
		return nil, err
	}
	from, err := lease.Metadata()
	if err != nil {
		return nil, err
	}
	p.Metadata = requiredMetadata()
	describe(&p.Metadata, m.Format(), from)
	p.Metadata = withoutEncryption(p.Metadata)
	if err := p.decide(ctx); err != nil {
		return nil, err
	}
	if err := p.describeChanges(); err != nil {
		return nil, withPath(path, err)
	}
	p.findStale()
	suffix := formats.Suffix(p.Format)
	p.singlePath = withoutExt(path, suffix) + suffix
	if err := p.target.divideFiles(p); err != nil {
		return nil, withPath(path, err)
	}
	p.Bytes = p.size()
	// Scales and metadata may have been read from two versions of a file.
	return p, cmp.Or(p.checkPaths(), lease.Changed())
}

// Write writes what the plan says, in constant memory. The model must still be open. Files appear
// under their names once all of them are complete. None does if a file of the model has changed
// since it was opened.
//
// The files must not replace files of the model. Wherever the process ends, Path stands for the old
// model, for nothing, or for the whole of the new one: see [atomicfile.CommitAll]. If two
// conversions write to the same path, in whatever processes, the one that ends later replaces the
// other's whole. Old shards that the new model does not replace stay; Left names them.
func (p *Plan) Write(ctx context.Context) error {
	lease, err := p.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	for i := range p.Tensors {
		p.Tensors[i].source = lease.Of(p.Tensors[i].source)
	}
	if err := p.checkPaths(); err != nil {
		return err
	}
	return newWriter(ctx, p, lease).write()
}

// Write plans a conversion and carries it out.
func Write(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	p, err := NewPlan(ctx, m, path, opts)
	if err != nil {
		return nil, err
	}
	return p, p.Write(ctx)
}
