package convert

import (
	"context"
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
	// Progress, if set, hears how many of how many bytes of the new file are written.
	Progress func(done, total uint64)
}

// Result says what was written.
type Result struct {
	Tensors int
	Bytes   uint64 // size of the new file
}

// ToAPR2 writes all of m's tensors, as they are stored, and its metadata to an APR2 file at
// path. Bytes go from the mapping to the file; memory stays constant. The file appears
// under its name only once it is complete.
func ToAPR2(ctx context.Context, m *loader.Model, path string, opts *Options) (Result, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.Acquire()
	if err != nil {
		return Result{}, err
	}
	defer lease.Release()
	md, err := Metadata(m)
	if err != nil {
		return Result{}, err
	}
	MergeConfig(&md, opts.Config)
	w, err := apr2.Create(path, descriptors(m), &apr2.Options{Align: opts.Align, Metadata: md})
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", path, err)
	}
	defer w.Abort()
	for t := range lease.Tensors() {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		if err := copyTensor(w, t); err != nil {
			return Result{}, err
		}
	}
	if err := w.Close(); err != nil {
		return Result{}, fmt.Errorf("%s: %w", path, err)
	}
	return Result{Tensors: m.Len(), Bytes: w.Size()}, nil
}

func copyTensor(w *apr2.FileWriter, t loader.Tensor) error {
	b, err := t.Bytes()
	if err != nil {
		return err
	}
	return w.WriteTensor(b)
}

func descriptors(m *loader.Model) []layout.Tensor {
	list := make([]layout.Tensor, 0, m.Len())
	for t := range m.Tensors() {
		list = append(list, layout.Tensor{Name: []byte(t.Name()), DType: t.DType(), Shape: t.Shape()})
	}
	return list
}
