package convert

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
)

// NewPlan decides how m's tensors and metadata are written to path. It writes nothing. It reads the tensors that become int8,
// since it needs their scales. Elements that are not re-encoded will be copied byte for byte. If the new format lacks a type,
// another replaces it as the package's documentation says. Tensor.Changed then names the reason.
//
// It fails for names, types, metadata, sizes and options that the format cannot hold. It fails if m is closed, and if a new
// file would replace one that is read. It fails if a file of m has changed since it was opened: see [loader.Model.Changed].
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
	defer func() { p.lease = nil }() // Write has a lease of its own
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
	if err := p.decide(ctx); err != nil { // expects that Metadata describes the source
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
	// Changed is asked again: scales and metadata may have been read from two versions of a file.
	if err := cmp.Or(p.checkPaths(), lease.Changed()); err != nil {
		return nil, err
	}
	return p, nil
}

// Write writes what the plan says, in constant memory. The model must still be open. Files appear
// under their names once all of them are complete. None appears if Write fails, as it does if a file of the
// model has changed since it was opened.
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
		p.Tensors[i].source = lease.Of(p.Tensors[i].source) // in place of a lease that has been released
	}
	if err := p.checkPaths(); err != nil {
		return err
	}
	w := &writer{plan: p, lease: lease, progress: progress{ctx: ctx, left: p.size()}}
	w.progress.Report, w.progress.Total = p.opts.Progress, p.size()
	switch p.opts.Compress {
	case Fast:
		w.compressor = lz4block.NewWriter(nil, lz4block.Fast)
	case High:
		w.compressor = lz4block.NewWriter(nil, lz4block.High)
	}
	return w.write()
}

// Write plans a conversion of m to path and carries it out. It fails as NewPlan and Plan.Write do, and returns nil for
// a plan that could not be made.
func Write(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	p, err := NewPlan(ctx, m, path, opts)
	if err != nil {
		return nil, err
	}
	return p, p.Write(ctx)
}
