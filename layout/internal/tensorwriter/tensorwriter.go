// Package tensorwriter writes the tensors of a planned file from front to back. A format's writer adds
// what comes before and after them.
package tensorwriter

import (
	"bufio"
	"io"
	"iter"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// Fields are a format's words for what errors are about.
type Fields struct {
	Size  string // how many bytes a tensor has
	Count string // how many tensors there are
}

// Plan is the file that is to be written.
type Plan struct {
	Format layout.Format
	Size   uint64 // of the file
	Align  uint64 // of each tensor, a power of two
	Count  int    // of Tensors
	// Tensors yields the tensors with Stored, the size of each. It is asked again for the next few as they are
	// written, so that a plan of many takes no memory for each. Name may be memory that is used again.
	Tensors iter.Seq[layout.Tensor]
	Fields  Fields
	// Filter, if set, returns what writes t, tensor i, in place of write: the same in another form.
	Filter func(t *layout.Tensor, i int, write func(dst io.Writer) error) func(dst io.Writer) error
}

// Count counts tensors.
func Count(tensors iter.Seq[layout.Tensor]) (n int) {
	for range tensors {
		n++
	}
	return n
}

// Sized yields tensors whose bytes are stored as they are, each with its size.
func Sized(tensors iter.Seq[layout.Tensor]) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		for t := range tensors {
			t.Stored, _ = t.DType.Size(t.Shape) // which has been checked
			if t.Raw = t.Stored; !yield(t) {
				return
			}
		}
	}
}

// File is the mechanism under a format's writer. Once a method has failed, the file is of no use and
// every later call fails alike.
type File struct {
	Plan Plan
	dst  io.Writer
	near []layout.Tensor // some tensors of the plan, the one to come among them
	from int             // the number of the first
	Mark
	err error
}

// Mark is how far a File has come.
type Mark struct {
	Begun   int    // tensors
	Written uint64 // bytes
}

// New returns a File that writes the tensors of plan to dst. Nothing is written yet.
func New(dst io.Writer, plan Plan) *File { return &File{Plan: plan, dst: dst} }

// Tensor describes tensor i of the plan, until another is asked for. It is nil if there is none.
func (f *File) Tensor(i int) *layout.Tensor {
	if i < f.from || i >= f.from+len(f.near) {
		f.fetch(i)
	}
	if i -= f.from; i < len(f.near) {
		return &f.near[i]
	}
	return nil
}

// fetch reads tensor i and those after it: a part of all, since every time those before i are passed by.
func (f *File) fetch(i int) {
	const few, parts = 256, 16
	most := max(few, f.Plan.Count/parts)
	f.from, f.near = i, make([]layout.Tensor, 0, min(most, max(0, f.Plan.Count-i)))
	var names []byte
	for t := range f.Plan.Tensors {
		if i--; i >= 0 {
			continue
		}
		if len(f.near) == cap(f.near) {
			break
		}
		at := len(names)
		names = append(names, t.Name...)
		t.Name = names[at:len(names):len(names)]
		f.near = append(f.near, t)
	}
}

// Err returns the error that ended the work, or nil.
func (f *File) Err() error { return f.err }

// Fail makes err the answer of every later call, and returns it.
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

// Head writes what write hands to w, such as all that precedes the tensors, in large pieces.
func (f *File) Head(write func(w *bufio.Writer) error) error {
	w := bufio.NewWriterSize(f, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// Encoder writes the head of a file, or counts its bytes.
type Encoder struct {
	W   *bufio.Writer // or nil; it keeps its errors for Flush
	N   uint64        // bytes written
	Buf []byte        // empty memory
}

// Put writes b, which began as e.Buf.
func (e *Encoder) Put(b []byte) {
	if e.N += uint64(len(b)); e.W != nil {
		e.W.Write(b)
	}
	e.Buf = b[:0]
}

// PutString writes s.
func (e *Encoder) PutString(s string) {
	if e.N += uint64(len(s)); e.W != nil {
		e.W.WriteString(s)
	}
}

// PutJSON writes v as JSON.
func (e *Encoder) PutJSON(v any) error {
	n, err := layout.WriteJSON(e.W, v)
	e.N += uint64(n)
	return err
}

// Tensors calls describe, which writes what the head says of a tensor, for each. Then check, unless it is nil, looks at it.
func (e *Encoder) Tensors(tensors iter.Seq[layout.Tensor], check *layout.Builder, describe func(t *layout.Tensor) error) error {
	t := new(layout.Tensor) // one for all
	for *t = range Sized(tensors) {
		at := e.N
		if err := describe(t); err != nil {
			return err
		}
		if check == nil {
			continue
		}
		*check.Next() = layout.Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType, Stored: t.Stored}
		if err := check.Add(at); err != nil {
			return err
		}
	}
	return nil
}

// mostAlign is the largest alignment: that of GGUF.
const mostAlign = 4096

var zeros [mostAlign]byte

// Pad writes zeros up to an offset, fewer than 4096.
func (f *File) Pad(to uint64) error {
	_, err := f.Write(zeros[:to-f.Written])
	return err
}

// Complete makes sure that all tensors are written.
func (f *File) Complete() error {
	if n := f.Plan.Count; f.err == nil && f.Begun < n {
		return f.Failf(f.Written, f.Plan.Fields.Count, layout.ErrTruncated, "%d of %d tensors written", f.Begun, n)
	}
	return f.err
}

// begin pads the file up to the next tensor.
func (f *File) begin() (*layout.Tensor, error) {
	if f.err != nil {
		return nil, f.err
	}
	t := f.Tensor(f.Begun)
	if t == nil {
		return nil, f.Failf(f.Written, f.Plan.Fields.Count, layout.ErrInvalid, "a tensor more than the %d declared", f.Begun)
	}
	f.Begun++
	t.Offset = (f.Written + f.Plan.Align - 1) &^ (f.Plan.Align - 1) // as planned if all sizes were known
	return t, f.Pad(t.Offset)
}

// WriteUnsized writes the next tensor, whose size shows only now: all that write hands to dst. It returns
// the tensor and its size. An error of write alone does not end the work: the caller may go back to a
// Mark, or Fail.
func (f *File) WriteUnsized(write func(dst io.Writer) error) (t *layout.Tensor, size uint64, err error) {
	const room = math.MaxInt64 - mostAlign // for what follows the tensors
	if t, err = f.begin(); err != nil {
		return nil, 0, err
	}
	size, err = f.write(t, room-t.Offset, write)
	return t, size, err
}

// write gives write a destination for at most so many bytes of t.
func (f *File) write(t *layout.Tensor, most uint64, write func(dst io.Writer) error) (size uint64, err error) {
	dst := bounded{file: f, tensor: t, most: most}
	if f.Plan.Filter != nil {
		write = f.Plan.Filter(t, f.Begun-1, write)
	}
	err = write(&dst)
	if f.err != nil {
		err = f.err // which write may have dropped
	}
	return dst.n, err
}

// bounded takes the bytes of one tensor, and none more.
type bounded struct {
	file   *File
	tensor *layout.Tensor
	most   uint64
	n      uint64
}

func (d *bounded) Write(b []byte) (int, error) {
	f := d.file
	if f.err != nil {
		return 0, f.err
	}
	if uint64(len(b)) > d.most-d.n {
		return 0, f.Failf(d.tensor.Offset, f.Plan.Fields.Size, layout.ErrInvalid, "tensor %s: more than its %d bytes given", layout.Quote(d.tensor.Name), d.most)
	}
	n, err := f.Write(b)
	d.n += uint64(n)
	return n, err
}

// Tensors has the methods of a format's writer that write tensors.
type Tensors struct{ file *File }

// NewTensors returns the methods that write f's tensors.
func NewTensors(f *File) Tensors { return Tensors{f} }

// Size returns how many bytes the whole file will have. A tensor of unknown size counts as not
// compressed.
func (w *Tensors) Size() uint64 { return w.file.Plan.Size }

// Written returns the number of bytes written so far.
func (w *Tensors) Written() uint64 { return w.file.Written }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (w *Tensors) WriteTensor(b []byte) error {
	if w.file.Plan.Filter != nil {
		return w.WriteTensorFunc(func(dst io.Writer) error {
			_, err := dst.Write(b)
			return err
		})
	}
	t, err := w.file.begin()
	if err != nil {
		return err
	}
	if err := w.checkSize(t, uint64(len(b))); err != nil {
		return err
	}
	_, err = w.file.Write(b)
	return err
}

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in pieces of any
// size. dst may be used until write returns.
func (w *Tensors) WriteTensorFunc(write func(dst io.Writer) error) error {
	t, err := w.file.begin()
	if err != nil {
		return err
	}
	n, err := w.file.write(t, t.Stored, write)
	if err != nil {
		return w.file.Fail(err)
	}
	return w.checkSize(t, n)
}

// checkSize fails unless t has n bytes.
func (w *Tensors) checkSize(t *layout.Tensor, n uint64) error {
	if n == t.Stored {
		return nil
	}
	return w.file.Failf(t.Offset, w.file.Plan.Fields.Size, layout.ErrInvalid, "tensor %s: %d bytes given, but %v %v takes %d",
		layout.Quote(t.Name), n, t.DType, t.Shape, t.Stored)
}

// Close makes sure that all tensors are written, and pads the last one. It does not close the writer below.
func (w *Tensors) Close() error {
	if err := w.file.Complete(); err != nil {
		return err
	}
	if err := w.file.Pad(w.file.Plan.Size); err != nil {
		return err
	}
	w.file.Fail(layout.ErrClosed)
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
