package convert

import (
	"cmp"
	"context"
	"fmt"

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
	p := &Plan{Path: path, Format: cmp.Or(opts.Format, formatOf(path)), model: m, lease: lease, opts: *opts}
	defer func() { p.lease = nil }() // Write has a lease of its own
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

// Write plans a conversion of m to path and carries it out. It fails if NewPlan or Plan.Write does, and returns nil for
// a plan that could not be made.
func Write(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	p, err := NewPlan(ctx, m, path, opts)
	if err != nil {
		return nil, err
	}
	return p, p.Write(ctx)
}
