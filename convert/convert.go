package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// Options tune ToAPR2. Nil and zero fields mean the defaults.
type Options struct {
	// Align is the alignment of every tensor in bytes: 64, the default, or 32.
	Align int
	// Config is merged into the metadata, as MergeConfig says.
	Config layout.Metadata
	// DType, unless it is Invalid, is what tensors of real numbers are re-encoded to: one
	// of those that CanEncode accepts.
	DType layout.DType
	// Keep, if set, names tensors that stay as they are stored, whatever DType says.
	Keep func(name string) bool
	// Compress, unless it is NoCompression, stores tensors as LZ4 blocks where that pays: where
	// they become smaller by one part in 32, and by 64 bytes. A tensor that does not within
	// its first 16 MiB is not tried further. What is compressed cannot be viewed in place.
	Compress Compression
	// Progress, if set, hears how many of how many bytes of the new file are written, all
	// counted as not compressed.
	Progress func(done, total uint64)
}

// Result says what was written.
type Result struct {
	Tensors int
	Bytes   uint64 // size of the new file
	// Kept are the tensors that stayed as they were although Options.DType asked for
	// something else.
	Kept []Kept
	// Compressed are the tensors that Options.Compress has made smaller.
	Compressed Compressed
	// Lost are the tensors with values that their new encoding cannot hold at all.
	Lost []Lost
}

// Kept is a tensor that was not re-encoded, and why.
type Kept struct {
	Name   string
	Reason string
}

// Lost counts the values of a tensor that were finite and became NaN or infinite, because
// they or the scale of their block are beyond float16, or that were not and became finite,
// because integers under a scale have no NaN.
type Lost struct {
	Name   string
	Values uint64
}

// ToAPR2 writes all of m's tensors and its metadata to an APR2 file at path. A tensor that
// is not re-encoded goes byte for byte from the mapping to the file; a compressed one is
// decompressed, unless Options.Compress asks for no more than it has. Memory stays constant
// in any case. The file appears under its name only once it is complete.
func ToAPR2(ctx context.Context, m *loader.Model, path string, opts *Options) (Result, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.Acquire()
	if err != nil {
		return Result{}, err
	}
	defer lease.Release()
	plan, kept, err := newPlan(ctx, lease, opts)
	if err != nil {
		return Result{}, err
	}
	md, err := metadata(m, lease, plan, opts)
	if err != nil {
		return Result{}, err
	}
	w, err := apr2.Create(path, descriptors(plan, opts), &apr2.Options{Align: opts.Align, Metadata: md})
	if err != nil {
		return Result{}, about(path, err)
	}
	defer w.Abort() // does nothing once Close has succeeded
	wr := newWriter(ctx, w, opts)
	for i := range plan {
		if err := wr.tensor(&plan[i]); err != nil {
			return Result{}, err
		}
	}
	if err := w.Close(); err != nil {
		return Result{}, err
	}
	wr.progress.end()
	result := wr.result
	result.Tensors, result.Bytes, result.Kept = len(plan), w.Size(), kept
	return result, nil
}

// about adds path to what the format refuses; errors of the system name it already.
func about(path string, err error) error {
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}

func descriptors(plan []encoding, opts *Options) []layout.Tensor {
	list := make([]layout.Tensor, len(plan))
	for i, e := range plan {
		list[i] = layout.Tensor{Name: []byte(e.tensor.Name()), DType: e.dtype, Shape: e.tensor.Shape()}
		if opts.Compress != NoCompression {
			list[i].Encoding = layout.LZ4 // perhaps, and of a size that will show
		}
	}
	return list
}
