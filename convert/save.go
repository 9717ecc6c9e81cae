package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// SaveTensor is a tensor in memory that Save writes.
type SaveTensor struct {
	Name  string
	DType layout.DType
	Shape []int // the outermost dimension first; none for a scalar
	// Data has the elements, little-endian and row-major. mmapio.Bytes returns the bytes of a slice of numbers, on a machine
	// of that byte order.
	Data []byte
}

// SaveOptions tune Save. A nil *SaveOptions and every zero field mean the defaults.
type SaveOptions struct {
	// Format is the format to write. Unknown means the format that the suffix of path names.
	Format layout.Format
	// Metadata has values as the format's writer takes them: [apr2.NewWriter], [gguf.NewWriter]. SafeTensors has strings
	// only, and other values become JSON there.
	Metadata layout.Metadata
}

// Save writes tensors in memory to a new file called path: SafeTensors, APR2 or GGUF. An older file of that name is replaced.
// The file appears under its name once it is complete. It does not appear if anything fails, or if ctx ends.
//
// APR2 and GGUF have the tensors in the order given. A SafeTensors file has tensors of larger alignment first, so that all can be
// viewed in place. The error is a *layout.FormatError if the format cannot hold something: a dtype, a name that comes twice, Data of
// another length than DType and Shape say. Formats other than the three are layout.ErrUnsupported.
//
// To write the tensors of a model, or to re-encode, compress, sign or shard them, use Write.
func Save(ctx context.Context, path string, tensors []SaveTensor, opts *SaveOptions) error {
	if opts == nil {
		opts = new(SaveOptions)
	}
	format := cmp.Or(opts.Format, formatOf(path))
	if !CanWrite(format) {
		return fmt.Errorf("%s: %w: writing %v", path, layout.ErrUnsupported, format)
	}
	f := file{metadata: slices.Clone(opts.Metadata)}
	for i, t := range tensors {
		f.tensors = append(f.tensors, Tensor{Name: t.Name, To: t.DType, Shape: t.Shape, sourcePosition: uint32(i)})
	}
	for i, e := range f.metadata {
		if _, isText := e.Value.(string); isText || format != layout.SafeTensors {
			continue
		}
		text, err := layout.EncodeJSON(e.Value)
		if err != nil {
			return withPath(path, err)
		}
		f.metadata[i].Value = string(text)
	}
	out, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort() // does nothing once the file has its name
	w, err := (&Plan{Format: format}).newFileWriter(&parallel.Writer{Ctx: ctx, W: out}, &f)
	if err != nil {
		return withPath(path, err)
	}
	for _, t := range f.tensors { // in the order that the format wants
		err := w.WriteTensorFunc(func(dst io.Writer) error {
			_, err := dst.Write(tensors[t.sourcePosition].Data)
			return err
		})
		if err != nil {
			return withPath(path, err)
		}
	}
	if err := cmp.Or(w.Close(), context.Cause(ctx)); err != nil {
		return err
	}
	return out.Commit()
}
