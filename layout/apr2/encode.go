package apr2

import (
	"io"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/layout"
)

// Options are those of a Writer; nil and the zero value mean the defaults.
type Options struct {
	// Align is the alignment of tensors in bytes: 64, which 0 means too, or 32.
	Align int
	// Metadata is written as JSON in its order. The draft requires the keys
	// apr_version, model_type and architecture (an object).
	Metadata layout.Metadata
	// Flags may add Sharded and Streaming; the other flags follow from the tensors.
	Flags Flags
}

// Writer writes an APR2 file from front to back. It holds the index and, where tensors
// come from readers, one buffer, but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	w     io.Writer
	plan  *plan
	index *layout.Index
	state
	buf []byte
	err error
}

// state is how far a Writer has come.
type state struct {
	next int         // the tensor to come
	sum  crcmath.Sum // of what has been written
	// crc32 is that in the footer, once it is written.
	crc32 uint32
}

// chunk is what is read from a Reader at a time.
const chunk = 256 << 10

// NewWriter writes header, metadata and index of a file with these tensors, of which
// Name, Shape and DType are read, and Encoding, which is Raw or LZ4. Their bytes follow in
// the same order, by one call of WriteTensor, WriteTensorFrom or WriteTensorFunc each. An
// empty shape is written as [1].
//
// The bytes of an LZ4 tensor are the blocks as the file shall have them, and Stored says
// how many bytes they take: it has to be known, as the index comes before the tensors. Where
// it is not, see Create.
//
// It refuses what Decode would refuse, with the same errors: names that are not unique
// UTF-8, more than 8 dimensions, dtypes that the format has no id for, and the like; and
// metadata that could not be read again: keys that are not unique, deep nesting, more than
// the default of [layout.Limits], or quantization that [File.Scales] refuses.
func NewWriter(w io.Writer, tensors []layout.Tensor, opts *Options) (*Writer, error) {
	wr, head, err := newWriter(w, tensors, opts)
	if err != nil {
		return nil, err
	}
	return wr, wr.write(head)
}

// newWriter is a Writer before its head is written.
func newWriter(w io.Writer, tensors []layout.Tensor, opts *Options) (*Writer, []byte, error) {
	if opts == nil {
		opts = &Options{}
	}
	p, err := newPlan(tensors, opts)
	if err != nil {
		return nil, nil, err
	}
	head, err := p.encode(tensors)
	if err != nil {
		return nil, nil, err
	}
	index, err := p.readBack(head)
	if err != nil {
		return nil, nil, err
	}
	return &Writer{w: w, plan: p, index: index}, head, nil
}

// Size is the size in bytes that the whole file will have. Where sizes of tensors are not
// known yet (see Create), it counts these as not compressed.
func (w *Writer) Size() uint64 { return w.index.Size }

// Written is the number of bytes written so far.
func (w *Writer) Written() uint64 { return w.sum.Size }

// CRC32 returns, once the file is closed or prepared, the number in its footer, which a
// manifest of shards repeats: the CRC32 (IEEE) of all bytes but the footer's.
func (w *Writer) CRC32() uint32 { return w.crc32 }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (w *Writer) WriteTensor(b []byte) error {
	t, err := w.begin()
	if err != nil {
		return err
	}
	if n := uint64(len(b)); n != t.Stored {
		return w.fail(w.wrongSize(t, n))
	}
	return w.write(b)
}

// WriteTensorFrom writes the next tensor, whose bytes are all that r yields.
func (w *Writer) WriteTensorFrom(r io.Reader) error {
	if w.buf == nil {
		w.buf = make([]byte, chunk)
	}
	return w.WriteTensorFunc(func(dst io.Writer) error {
		// Plain Reader and Writer, for io.CopyBuffer to use the buffer.
		_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{r}, w.buf)
		return err
	})
}

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst: so
// a tensor is written piece by piece by whoever makes or has its bytes. dst may be used
// until write returns.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	t, err := w.begin()
	if err != nil {
		return err
	}
	dst := tensorWriter{w: w, tensor: t, most: t.Stored}
	if err := write(&dst); err != nil {
		return w.fail(err)
	}
	if w.err != nil {
		return w.err // which write has dropped
	}
	if dst.n != t.Stored {
		return w.fail(w.wrongSize(t, dst.n))
	}
	return nil
}

// tensorWriter takes the bytes of one tensor, and none more.
type tensorWriter struct {
	w      *Writer
	tensor *layout.Tensor
	most   uint64
	n      uint64
}

func (d *tensorWriter) Write(b []byte) (int, error) {
	if left := d.most - d.n; uint64(len(b)) > left {
		return 0, d.w.fail(errorf(d.tensor.Offset, "size", layout.ErrInvalid, "tensor %s: more than its %d bytes given", layout.Quote(d.tensor.Name), d.most))
	}
	before := d.w.sum.Size
	err := d.w.write(b)
	n := d.w.sum.Size - before
	d.n += n
	return int(n), err
}

// Close writes the footer. It does not close the writer below.
func (w *Writer) Close() error {
	if err := w.complete(); err != nil {
		return err
	}
	return w.finish()
}

// complete makes sure that all tensors are written.
func (w *Writer) complete() error {
	if w.err != nil {
		return w.err
	}
	if n := len(w.index.Tensors); w.next < n {
		return w.fail(errorf(w.sum.Size, "tensor_count", layout.ErrTruncated, "%d of %d tensors written", w.next, n))
	}
	return nil
}

// finish writes everything behind the last tensor.
func (w *Writer) finish() error {
	if err := w.pad(w.index.Size - footerSize); err != nil {
		return err
	}
	w.crc32 = w.sum.CRC32
	footer := le.AppendUint32(make([]byte, 0, footerSize), w.crc32)
	footer = append(footer, magicEnd...)
	footer = le.AppendUint64(footer, w.index.Size)
	if err := w.write(footer); err != nil {
		return err
	}
	w.err = layout.ErrClosed
	return nil
}

// begin pads the file up to the next tensor.
func (w *Writer) begin() (*layout.Tensor, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.next == len(w.index.Tensors) {
		return nil, w.fail(errorf(w.sum.Size, "tensor_count", layout.ErrInvalid, "a tensor more than the %d declared", w.next))
	}
	t := &w.index.Tensors[w.next]
	w.next++
	t.Offset = alignUp(w.sum.Size, w.plan.align) // as planned, where all sizes were known
	return t, w.pad(t.Offset)
}

var zeros [defaultAlign]byte

func (w *Writer) pad(to uint64) error { return w.write(zeros[:to-w.sum.Size]) }

func (w *Writer) write(b []byte) error {
	if err := w.sum.Write(w.w, b); err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

func (w *Writer) wrongSize(t *layout.Tensor, n uint64) error {
	return errorf(t.Offset, "size", layout.ErrInvalid, "tensor %s: %d bytes given, but %v %v takes %d", layout.Quote(t.Name), n, t.DType, t.Shape, t.Stored)
}
