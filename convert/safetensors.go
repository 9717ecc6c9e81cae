package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/loader"
)

// ToSafeTensors writes all of m's tensors and its metadata to a SafeTensors file at path, as
// ToAPR2 does to an APR2 file. Blocks of quantized numbers and integers with a scale, which the
// format does not have, are expanded to Options.DType, or F32 where that says nothing; other
// types that it does not have are kept bit for bit: see the package's documentation.
// Result.Changed names both.
//
// Tensors are in the order of the alignment of their types, widest first, so that all of them
// are aligned: the format allows no space between them. Options.DType is F32, F16 or BF16.
// Align has no meaning, and compressing and dividing are ErrUnsupported.
func ToSafeTensors(ctx context.Context, m *loader.Model, path string, opts *Options) (Result, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.Acquire()
	if err != nil {
		return Result{}, err
	}
	defer lease.Release()
	plan, md, err := planSafeTensors(ctx, m, lease, opts)
	if err != nil {
		return Result{}, err
	}
	file, err := safetensors.Create(path, descriptors(plan.list, &Options{}), md)
	if err != nil {
		return Result{}, about(path, err)
	}
	defer file.Abort() // does nothing once Close has succeeded
	w := newWriter(ctx, m, opts, file.Size())
	for i := range plan.list {
		if err := w.elements(file, &plan.list[i]); err != nil {
			return Result{}, err
		}
	}
	if err := cmp.Or(ctx.Err(), file.Close()); err != nil {
		return Result{}, err
	}
	w.progress.end()
	result := w.result
	plan.report(&result)
	result.Bytes = file.Size()
	return result, nil
}

func planSafeTensors(ctx context.Context, m *loader.Model, lease *loader.Lease, opts *Options) (*planner, layout.Metadata, error) {
	if opts.Compress != NoCompression || opts.ShardBytes != 0 {
		return nil, nil, fmt.Errorf("%w: SafeTensors files that are compressed or divided", layout.ErrUnsupported)
	}
	plan, err := newPlan(ctx, m, lease, &safeTensorsTarget, opts)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(plan.list, func(a, b encoding) int { return cmp.Compare(b.dtype.Align(), a.dtype.Align()) })
	md, err := metadata(m, lease, plan.list, &safeTensorsTarget, opts)
	if err != nil {
		return nil, nil, err
	}
	md, err = safeTensorsMetadata(md)
	return plan, md, err
}

// elements writes e to a file of any format, not compressed.
func (w *writer) elements(file interface {
	WriteTensorFunc(func(dst io.Writer) error) error
}, e *encoding) error {
	begun := w.progress.done
	var lost uint64
	err := file.WriteTensorFunc(func(dst io.Writer) (err error) {
		lost, err = e.writeTo(&monitor{dst, &w.progress}, &w.buf)
		return err
	})
	if lost > 0 {
		w.result.Lost = append(w.result.Lost, Lost{e.tensor.Name(), lost})
	}
	w.progress.done = begun + e.rawBytes()
	return cmp.Or(err, w.release(e))
}
