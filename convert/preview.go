package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/loader"
)

// Preview is what a conversion would write.
type Preview struct {
	// Result is that of the conversion, as far as it can be known: Bytes counts what may be
	// compressed as not compressed, and leaves out a manifest. Nothing is in Compressed and Lost.
	Result
	// Metadata is that of the new file.
	Metadata layout.Metadata
	// List are the tensors in the order of the new file.
	List []Planned
}

// Planned is a tensor to be written.
type Planned struct {
	Name               string
	From, To           layout.DType
	FromShape, Shape   []uint64
	StoredBytes, Bytes uint64 // in the source and, not compressed, in the new file
	Reencoded          bool   // its values are encoded anew; else its bytes are the same
}

// NewPreview checks and plans all that ToAPR2 or ToSafeTensors would do, as format says, and
// writes nothing. As for them, tensors that become int8 are read, for their scales.
func NewPreview(ctx context.Context, m *loader.Model, path string, format layout.Format, opts *Options) (*Preview, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.Acquire()
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	var p Preview
	var plan *planner
	switch format {
	case layout.APR2:
		plan, err = p.apr2(ctx, m, lease, path, opts)
	case layout.SafeTensors:
		plan, err = p.safeTensors(ctx, m, lease, path, opts)
	default:
		err = fmt.Errorf("%w: writing %v", layout.ErrUnsupported, format)
	}
	if err != nil {
		return nil, err
	}
	plan.report(&p.Result)
	for i := range plan.list {
		p.List = append(p.List, plan.list[i].planned())
	}
	return &p, nil
}

func (p *Preview) apr2(ctx context.Context, m *loader.Model, lease *loader.Lease, path string, opts *Options) (*planner, error) {
	plan, err := newPlan(ctx, m, lease, &apr2Target, opts)
	if err != nil {
		return nil, err
	}
	if p.Metadata, err = metadata(m, lease, plan.list, &apr2Target, opts); err != nil {
		return nil, err
	}
	out, err := newOutput(path, plan.list, p.Metadata, opts)
	if err != nil {
		return nil, about(path, err)
	}
	p.Bytes, p.Shards, p.Oversized = out.size(), out.shards(), out.oversized
	return plan, out.checkTargets(m)
}

func (p *Preview) safeTensors(ctx context.Context, m *loader.Model, lease *loader.Lease, path string, opts *Options) (*planner, error) {
	plan, md, err := planSafeTensors(ctx, m, lease, opts)
	if err != nil {
		return nil, err
	}
	w, err := safetensors.NewWriter(io.Discard, descriptors(plan.list, &Options{}), md)
	if err != nil {
		return nil, about(path, err)
	}
	p.Metadata, p.Bytes = md, w.Size()
	return plan, nil
}

func (e *encoding) planned() Planned {
	t := e.tensor
	return Planned{
		Name: t.Name(), From: t.DType(), To: e.dtype, FromShape: t.Shape(), Shape: e.shape,
		StoredBytes: t.StoredBytes(), Bytes: e.rawBytes(), Reencoded: !e.asIs,
	}
}
