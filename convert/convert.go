package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader"
)

// Options tune ToAPR2 and ToSafeTensors. Nil and zero fields mean the defaults.
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
	// All quantizes norms, biases and tensors of one dimension like any other. They are small, and
	// models depend on them: otherwise they stay as they are stored if DType is a type of
	// blocks, or I8.
	All bool
	// PlainF8 takes the values of F8 tensors for weights if they have no scale. Otherwise
	// re-encoding them is a *PartError.
	PlainF8 bool
	// Compress, if it is Fast or High, stores tensors as LZ4 blocks where that pays: where
	// they become smaller by one part in 32, and by 64 bytes. A tensor that does not within
	// its first 16 MiB is not tried further. What is compressed cannot be viewed in place.
	Compress Compression
	// ShardBytes, unless it is 0, divides a model whose file would be larger among several
	// of at most this size; see ToAPR2 and ToSafeTensors.
	ShardBytes uint64
	// NoAliases leaves out tensors whose bytes are part of another tensor's, as the initializers
	// in the ONNX networks of an .april file are.
	NoAliases bool
	// Release gives the memory of every tensor back once it is written, as Model.Release does, for
	// a mapped model that nobody else reads: its pages would count as memory of this process.
	Release bool
	// Progress, if set, hears how many of how many bytes of the new files are written, all
	// counted as not compressed.
	Progress func(done, total uint64)
}

// Result says what was written.
type Result struct {
	Path    string // the new file, or the manifest or index that stands for its shards
	Tensors int
	Bytes   uint64 // size of the new file, or of shards and manifest together
	Shards  int    // number of shards; 0 where the model is one file
	// Oversized are the tensors that alone do not fit into Options.ShardBytes. Each has a
	// shard of its own.
	Oversized []string
	// Kept are the tensors that stayed as they were although Options.DType asked for
	// something else.
	Kept []Kept
	// Changed are the tensors of types that the new format does not have, and what they are
	// written as.
	Changed []Changed
	// LeftOut are the tensors that Options.NoAliases has left out.
	LeftOut []string
	// Compressed are the tensors that Options.Compress has made smaller.
	Compressed Compressed
	// Removed is the file that stood for an older model instead of Path, a SafeTensors file or
	// index; "" where there was none.
	Removed string
	// Left are files beside Path that are called as its shards are and are none, such as those of
	// an older model of more shards.
	Left []string
	// Lost are the tensors with values that their new encoding does not hold.
	Lost []Lost
	// Quantized are the weights that stay the codes they were stored as, beside their scales.
	Quantized []scheme.Part
}

// Kept is a tensor that was not re-encoded, and why.
type Kept struct {
	Name   string
	Reason string
}

// Lost counts the values that a tensor lost.
type Lost struct {
	Name     string
	Elements uint64
	dequant.Loss
}

// ToAPR2 writes all of m's tensors and its metadata to an APR2 file at path. A tensor that
// is not re-encoded goes byte for byte from the mapping to the file; a compressed one is
// decompressed, unless Options.Compress asks for no more than it has. Memory stays constant
// in any case. The file appears under its name only once it is complete. If a file of m has
// changed since it was opened, nothing appears: see [loader.Model.Changed].
//
// A model that takes more than Options.ShardBytes becomes several files. That at path is then
// a manifest, which has the metadata; tensors are in shards beside it, in their order, as
// many in each as fit uncompressed. For model.apr these are called
// model-00001-of-00004.apr and so on. Each is an APR2 file of its own, with the required
// metadata and its tensors' scales. They must not take the place of files of m. Wherever the
// process ends, path stands for the old model, for nothing, or for the whole of the new one:
// see [atomicfile.CommitAll]. Of two conversions to the same path, in whatever processes, the
// one that ends later replaces the other's whole. Shards of an old model that the new one does
// not replace stay, and are named in Result.Left.
func ToAPR2(ctx context.Context, m *loader.Model, path string, opts *Options) (Result, error) {
	return write(ctx, m, path, layout.APR2, opts)
}

func write(ctx context.Context, m *loader.Model, path string, format layout.Format, opts *Options) (Result, error) {
	lease, err := m.Acquire()
	if err != nil {
		return Result{}, err
	}
	defer lease.Release()
	plan, out, _, err := planOutput(ctx, m, lease, path, format, opts)
	if err != nil {
		return Result{}, err
	}
	return plan.write(m, lease, out)
}

// planOutput decides all of the new files, of which md is the metadata.
func planOutput(ctx context.Context, m *loader.Model, lease *loader.Lease, path string, format layout.Format, opts *Options) (plan *planner, out *output, md layout.Metadata, err error) {
	if opts == nil {
		opts = &Options{}
	}
	to, ok := targets[format]
	if !ok {
		return nil, nil, nil, fmt.Errorf("%w: writing %v", layout.ErrUnsupported, format)
	}
	if err := lease.Changed(); err != nil {
		return nil, nil, nil, err
	}
	if plan, err = newPlan(ctx, m, lease, to, opts); err != nil {
		return nil, nil, nil, err
	}
	if md, err = metadata(m, lease, plan.list, to, opts); err != nil {
		return nil, nil, nil, err
	}
	if out, md, err = to.output(path, plan.list, md, opts); err != nil {
		return nil, nil, nil, about(path, err)
	}
	// Scales and metadata that have been read may be of no file that ever was.
	return plan, out, md, cmp.Or(out.checkTargets(m), lease.Changed())
}

// write writes out, which is what has been planned.
func (p *planner) write(m *loader.Model, lease *loader.Lease, out *output) (Result, error) {
	w := newWriter(p.ctx, m, lease, p.opts, out.size())
	if err := w.write(out); err != nil {
		return Result{}, err
	}
	w.progress.end()
	result := w.result
	p.report(&result)
	out.report(&result)
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
		list[i] = layout.Tensor{Name: []byte(e.tensor.Name()), DType: e.dtype, Shape: e.shape}
		switch {
		case opts.Compress.compresses():
			list[i].Encoding = layout.LZ4 // perhaps, and of a size that will show
		case opts.Compress.keepsBlocks(&e):
			list[i].Encoding, list[i].Stored = layout.LZ4, e.tensor.StoredBytes()
		}
	}
	return list
}
