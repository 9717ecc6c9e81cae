package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

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
	// Progress, if set, hears how many of how many bytes of the new file are written.
	Progress func(done, total uint64)
}

// Result says what was written.
type Result struct {
	Tensors int
	Bytes   uint64 // size of the new file
	// Kept are the tensors that stayed as they were although Options.DType asked for
	// something else.
	Kept []Kept
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
// is not re-encoded goes byte for byte from the mapping to the file; memory stays constant
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
	w, err := apr2.Create(path, descriptors(plan), &apr2.Options{Align: opts.Align, Metadata: md})
	if err != nil {
		return Result{}, about(path, err)
	}
	defer w.Abort() // does nothing once Close has succeeded
	result := Result{Tensors: len(plan), Bytes: w.Size(), Kept: kept}
	var buf buffers
	for i := range plan {
		var lost uint64
		err := w.WriteTensorFunc(func(dst io.Writer) (err error) {
			lost, err = plan[i].writeTo(&monitor{ctx, dst, w, opts.Progress}, &buf)
			return err
		})
		if err != nil {
			return Result{}, err
		}
		if lost > 0 {
			result.Lost = append(result.Lost, Lost{plan[i].tensor.Name(), lost})
		}
	}
	if err := w.Close(); err != nil {
		return Result{}, err
	}
	if opts.Progress != nil {
		opts.Progress(w.Size(), w.Size())
	}
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

func descriptors(plan []encoding) []layout.Tensor {
	list := make([]layout.Tensor, len(plan))
	for i, e := range plan {
		list[i] = layout.Tensor{Name: []byte(e.tensor.Name()), DType: e.dtype, Shape: e.tensor.Shape()}
	}
	return list
}

// monitor passes a tensor's bytes on in pieces; between them it reports progress and
// notices that the work is cancelled.
type monitor struct {
	ctx      context.Context
	w        io.Writer
	file     *apr2.FileWriter
	progress func(done, total uint64)
}

const monitorPiece = 8 << 20

func (m *monitor) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		if err := m.ctx.Err(); err != nil {
			return written, err
		}
		n, err := m.w.Write(b[:min(len(b), monitorPiece)])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
		if m.progress != nil {
			m.progress(m.file.Written(), m.file.Size())
		}
	}
	return written, nil
}
