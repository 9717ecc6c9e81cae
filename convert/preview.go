package convert

import (
	"context"

	"github.com/tensormap/tensormap/layout"
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
	lease, err := m.Acquire()
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	plan, out, md, err := planOutput(ctx, m, lease, path, format, opts)
	if err != nil {
		return nil, err
	}
	p := &Preview{Metadata: md}
	plan.report(&p.Result)
	out.report(&p.Result)
	p.Bytes = out.size()
	for _, part := range out.parts {
		for i := range part.plan {
			p.List = append(p.List, part.plan[i].planned())
		}
	}
	return p, nil
}

func (e *encoding) planned() Planned {
	t := e.tensor
	return Planned{
		Name: t.Name(), From: t.DType(), To: e.dtype, FromShape: t.Shape(), Shape: e.shape,
		StoredBytes: t.StoredBytes(), Bytes: e.rawBytes(), Reencoded: !e.asIs,
	}
}
