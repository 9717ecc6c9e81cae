package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/layout/safetensors"
)

// SaveTensor is a tensor in memory that Save writes.
type SaveTensor struct {
	Name  string
	DType layout.DType
	Shape []int // the outermost dimension first; none for a scalar
	// Data has the elements, little-endian and row-major. mmapio.Bytes returns those of a slice of numbers, on a machine
	// of that byte order.
	Data []byte
}

// SaveOptions tune Save. A nil *SaveOptions and every zero field mean the defaults.
type SaveOptions struct {
	// Format is the format to write. Unknown takes the one whose suffix the path has.
	Format layout.Format
	// Metadata has values as the format's writer takes them: [apr2.NewWriter], [gguf.NewWriter]. SafeTensors has strings
	// only, and other values become JSON there.
	Metadata layout.Metadata
}

// Save writes tensors in memory to a new file called path: SafeTensors, APR2 or GGUF. An older file of that name is replaced.
// The file appears under its name once it is complete, or not at all: if anything fails, or ctx ends.
//
// APR2 and GGUF have the tensors in the order given. A SafeTensors file has those of larger alignment first, so that all can be
// viewed in place. The error is a *layout.FormatError if the format cannot hold something: a dtype, a name that comes twice, Data of
// another length than DType and Shape say. Formats other than the three are layout.ErrUnsupported.
//
// To write the tensors of a model, or to re-encode, compress, sign or shard them, use Write.
func Save(ctx context.Context, path string, tensors []SaveTensor, opts *SaveOptions) error {
	if opts == nil {
		opts = new(SaveOptions)
	}
	format := cmp.Or(opts.Format, formatOf(path))
	if format == layout.SafeTensors {
		tensors = slices.SortedStableFunc(slices.Values(tensors), func(a, b SaveTensor) int { return cmp.Compare(b.DType.Align(), a.DType.Align()) })
	}
	if !CanWrite(format) {
		return fmt.Errorf("%s: %w: writing %v", path, layout.ErrUnsupported, format)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort() // does nothing once the file has its name
	w, err := saver(format, &parallel.Writer{Ctx: ctx, W: f}, described(tensors), opts.Metadata)
	if err != nil {
		return withPath(path, err)
	}
	for _, t := range tensors {
		if err := w.WriteTensor(t.Data); err != nil {
			return withPath(path, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.Commit()
}

// tensorsWriter takes the bytes of one tensor after the other.
type tensorsWriter interface {
	WriteTensor(b []byte) error
	Close() error
}

// saver begins to write a file of format f to dst: its head, which describes the tensors. The error says what f cannot
// hold. Values that are no strings become JSON in SafeTensors.
func saver(f layout.Format, dst io.Writer, tensors iter.Seq[layout.Tensor], md layout.Metadata) (tensorsWriter, error) {
	switch f {
	case layout.APR2:
		return apr2.NewWriter(dst, tensors, &apr2.Options{Metadata: md})
	case layout.GGUF:
		return gguf.NewWriter(dst, tensors, md, nil)
	case layout.SafeTensors:
		texts := slices.Clone(md)
		for i, e := range texts {
			if _, ok := e.Value.(string); !ok {
				texts[i].Value = layout.JSONText{Value: e.Value}
			}
		}
		return safetensors.NewWriter(dst, tensors, texts)
	}
	return nil, layout.ErrUnsupported
}

// described yields how the tensors are described in a file.
func described(tensors []SaveTensor) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		for _, t := range tensors {
			if !yield(layout.Tensor{Name: []byte(t.Name), DType: t.DType, Shape: t.Shape}) {
				return
			}
		}
	}
}
