// Package tensorwriter writes the tensors of a planned file from front to back. A format's writer adds
// what comes before and after them.
package tensorwriter

import (
	"io"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// Plan is the file that is to be written.
type Plan struct {
	Format layout.Format
	Size   uint64 // of the file
	Align  uint64 // of each tensor, a power of two
	// Tensors are the tensors of the file, as decoding its head has returned them.
	Tensors []layout.Tensor
	// SizeField and CountField are what errors of the format call the number of bytes of a tensor, and the number of tensors.
	SizeField, CountField string
	// Filter, if set, returns what changes t, tensor i, on its way into the file, or nil.
	Filter func(t *layout.Tensor, i int) *Filter
}

// Filter changes the bytes of a tensor, some blocks at a time. The last block may be shorter.
type Filter struct {
	Blocks       uint64 // that are changed at a time
	Block, Space uint64 // bytes of a block, and of the space behind each
	// Change changes n bytes of the tensor, which b holds in blocks. It works in place, and returns what is to be written.
	Change func(b []byte, n uint64) []byte

	dst io.Writer
	buf []byte // what is collected
	n   uint64 // its bytes of the tensor
}

// File writes the tensors of a plan to a destination. Once a method has failed, the file is of no use and
// every later call fails alike.
type File struct {
	Plan Plan
	dst  io.Writer
	Mark
	err error
	buf []byte // memory of filters
}

// Mark is how far a File has come.
type Mark struct {
	Begun   int    // tensors
	Written uint64 // bytes
}

// New returns a File that writes the tensors of plan to dst. Nothing is written yet.
func New(dst io.Writer, plan Plan) *File { return &File{Plan: plan, dst: dst} }

// Err returns the error that ended the work, or nil.
func (f *File) Err() error { return f.err }

// Fail makes every later call return err, and returns it.
func (f *File) Fail(err error) error {
	f.err = err
	return err
}

// Failf fails with an error about a field at an offset.
func (f *File) Failf(at uint64, field string, sentinel error, format string, args ...any) error {
	return f.Fail(layout.Errorf(f.Plan.Format, at, field, sentinel, format, args...))
}

// Write writes bytes that belong to no tensor.
func (f *File) Write(b []byte) (n int, err error) {
	n, err = f.dst.Write(b)
	f.Written += uint64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		f.Fail(err)
	}
	return n, err
}

// maxAlign is the largest alignment: the alignment of GGUF.
const maxAlign = 4096

var zeros [maxAlign]byte

// Pad writes zeros up to an offset, fewer than 4096.
func (f *File) Pad(to uint64) error {
	_, err := f.Write(zeros[:to-f.Written])
	return err
}

// Complete makes sure that all tensors are written.
func (f *File) Complete() error {
	if n := len(f.Plan.Tensors); f.err == nil && f.Begun < n {
		return f.Failf(f.Written, f.Plan.CountField, layout.ErrTruncated, "%d of %d tensors written", f.Begun, n)
	}
	return f.err
}

// nextTensor writes zeros up to the aligned offset of the next tensor, and returns the tensor with that offset. It fails if all tensors
// have been written.
func (f *File) nextTensor() (*layout.Tensor, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.Begun == len(f.Plan.Tensors) {
		return nil, f.Failf(f.Written, f.Plan.CountField, layout.ErrInvalid, "a tensor more than the %d declared", f.Begun)
	}
	t := &f.Plan.Tensors[f.Begun]
	f.Begun++
	t.Offset = (f.Written + f.Plan.Align - 1) &^ (f.Plan.Align - 1) // as planned if all sizes were known
	return t, f.Pad(t.Offset)
}

// WriteUnsized writes the next tensor, whose size shows only now: all that write hands to dst. It returns
// the tensor and its size. An error of write alone does not end the work: the caller may go back to a
// Mark, or Fail.
func (f *File) WriteUnsized(write func(dst io.Writer) error) (t *layout.Tensor, size uint64, err error) {
	const limit = math.MaxInt64 - maxAlign // for what follows the tensors
	if t, err = f.nextTensor(); err != nil {
		return nil, 0, err
	}
	size, err = f.write(t, limit-t.Offset, write)
	return t, size, err
}

// write calls the function write with a destination that takes at most limit bytes, the bytes of t. It returns how many were written, and the
// error of the file or else of write.
func (f *File) write(t *layout.Tensor, limit uint64, write func(dst io.Writer) error) (size uint64, err error) {
	dst := writerFunc(func(b []byte) (int, error) {
		if f.err != nil {
			return 0, f.err
		}
		if uint64(len(b)) > limit-size {
			return 0, f.Failf(t.Offset, f.Plan.SizeField, layout.ErrInvalid, "tensor %s: more than its %d bytes given", layout.Quote(t.Name), limit)
		}
		n, err := f.Write(b)
		size += uint64(n)
		return n, err
	})
	var filter *Filter
	if f.Plan.Filter != nil {
		filter = f.Plan.Filter(t, f.Begun-1)
	}
	if filter == nil {
		err = write(dst)
	} else {
		if size := filter.Blocks * (filter.Block + filter.Space); size > uint64(len(f.buf)) {
			f.buf = make([]byte, size)
		}
		filter.dst, filter.buf = dst, f.buf
		if err = write(filter); err == nil {
			err = filter.flush()
		}
	}
	if f.err != nil {
		err = f.err // which write may have dropped
	}
	return size, err
}

// Write collects b, and writes what has been collected whenever that is all blocks. It copies first, since b may be mapped, and such
// bytes must be read only once.
func (f *Filter) Write(b []byte) (written int, err error) {
	for written < len(b) {
		i, off := f.n/f.Block, f.n%f.Block
		n := copy(f.buf[i*(f.Block+f.Space)+off:][:f.Block-off], b[written:])
		written += n
		if f.n += uint64(n); f.n == f.Blocks*f.Block {
			if err := f.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush writes what has been collected.
func (f *Filter) flush() error {
	_, err := f.dst.Write(f.Change(f.buf, f.n))
	f.n = 0
	return err
}

// writerFunc is an io.Writer.
type writerFunc func(b []byte) (int, error)

// Write calls w.
func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (f *File) WriteTensor(b []byte) error {
	if f.Plan.Filter != nil {
		return f.WriteTensorFunc(func(dst io.Writer) error {
			_, err := dst.Write(b)
			return err
		})
	}
	t, err := f.nextTensor()
	if err == nil {
		err = f.checkSize(t, uint64(len(b)))
	}
	if err == nil {
		_, err = f.Write(b)
	}
	return err
}

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in writes of any
// size. dst may be used until write returns.
func (f *File) WriteTensorFunc(write func(dst io.Writer) error) error {
	t, err := f.nextTensor()
	if err != nil {
		return err
	}
	n, err := f.write(t, t.Stored, write)
	if err != nil {
		return f.Fail(err)
	}
	return f.checkSize(t, n)
}

// checkSize fails unless t has n bytes.
func (f *File) checkSize(t *layout.Tensor, n uint64) error {
	if n == t.Stored {
		return nil
	}
	return f.Failf(t.Offset, f.Plan.SizeField, layout.ErrInvalid, "tensor %s: %d bytes given, but %v %v takes %d",
		layout.Quote(t.Name), n, t.DType, t.Shape, t.Stored)
}

// Begin writes head, everything before the first tensor of the file that plan describes, to dst. It returns a File of the tensors, which
// decode has to find in the head. It fails if decode or writing does.
func Begin(dst io.Writer, plan Plan, head []byte, decode layout.Decoder) (*File, error) {
	planned, err := decode(HeadOnly{Head: head, Len: plan.Size}, nil)
	if err != nil {
		return nil, err
	}
	plan.Tensors = planned.Index().Tensors
	file := New(dst, plan)
	if _, err := file.Write(head); err != nil {
		return nil, err
	}
	return file, nil
}

// Close makes sure that all tensors are written, and pads the last one. It does not close the writer below. It is for formats with nothing
// behind the tensors.
func (f *File) Close() error {
	if err := f.Complete(); err != nil {
		return err
	}
	if err := f.Pad(f.Plan.Size); err != nil {
		return err
	}
	f.Fail(layout.ErrClosed)
	return nil
}

// HeadOnly is a planned file of size bytes that has nothing but its head yet.
type HeadOnly struct {
	Head layout.Bytes
	Len  uint64
}

// Size returns the size of the planned file.
func (h HeadOnly) Size() uint64 { return h.Len }

// Slice returns bytes of the head. A part that reaches beyond it ends in zeros, in memory of its own: a
// decoder may read ahead.
func (h HeadOnly) Slice(off, n uint64) ([]byte, error) {
	head := uint64(len(h.Head))
	if off >= head || n <= head-off || n > h.Len-off {
		return h.Head.Slice(off, n)
	}
	b := make([]byte, n)
	copy(b, h.Head[off:])
	return b, nil
}
