package apr1

import (
	"io"
	"math"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/layout"
)

// Options are what a file says beside its tensors; nil means the zero value.
type Options struct {
	ModelType ModelType
	Dimensions
	Vocabulary *Vocabulary // nil: none
	Filterbank *Filterbank // nil: none
}

// Writer writes an APR1 file, of the container Binary, from front to back. It holds the
// index, vocabulary and filterbank, but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	w     io.Writer
	index *layout.Index
	count int         // tensors that the caller writes
	next  int         // the tensor to come
	tail  []byte      // vocabulary and filterbank
	sum   crcmath.Sum // of what has been written
	buf   []byte      // for encoding values
	err   error
}

// chunk is how much of values is encoded at a time.
const chunk = 64 << 10

// NewWriter writes header and index of a file with these tensors, of which Name, Shape,
// DType and Quant.Scale are read. Their bytes follow in the same order, by one call of
// WriteTensor or WriteValues each.
//
// All tensors have the same type: F32, F16, or I8, each tensor with its scale: see [Scale].
//
// NewWriter refuses what Decode would refuse, with the same errors, and what the format
// cannot hold: names of more than 47 bytes, more than 4 dimensions, dimensions and strings
// of the vocabulary that are too long, no tensor, or more than 65,535.
func NewWriter(w io.Writer, tensors []layout.Tensor, opts *Options) (*Writer, error) {
	if opts == nil {
		opts = &Options{}
	}
	p, err := newPlan(tensors, opts)
	if err != nil {
		return nil, err
	}
	index, err := p.readBack()
	if err != nil {
		return nil, err
	}
	wr := &Writer{w: w, index: index, count: len(tensors), tail: p.tail}
	return wr, wr.write(p.head)
}

// Size is the size in bytes that the whole file will have.
func (w *Writer) Size() uint64 { return w.index.Size }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (w *Writer) WriteTensor(b []byte) error {
	t, err := w.begin()
	if err != nil {
		return err
	}
	if n := uint64(len(b)); n != t.Stored {
		return w.fail(refuse(t, t.Offset, "size", layout.ErrInvalid, "%d bytes given, but %v %v takes %d", n, t.DType, t.Shape, t.Stored))
	}
	return w.write(b)
}

// WriteValues writes the next tensor, whose elements are values: rounded to the nearest
// binary16, ties to even, where it is F16, and where it is I8 divided by the tensor's scale,
// rounded to the nearest integer, ties away from zero, and limited to ±127.
func (w *Writer) WriteValues(values []float32) error {
	t, err := w.begin()
	if err != nil {
		return err
	}
	if n := uint64(len(values)); n != t.Elements() {
		return w.fail(refuse(t, t.Offset, "n_elements", layout.ErrInvalid, "%d values given, but the shape is %v", n, t.Shape))
	}
	for len(values) > 0 {
		n := min(len(values), chunk/4)
		w.buf = appendValues(w.buf[:0], t, values[:n])
		if err := w.write(w.buf); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// Close writes vocabulary, filterbank and checksum. It does not close the writer below.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.next < w.count {
		return w.fail(errorf(w.index.Tensors[w.next].Offset, "n_tensors", layout.ErrTruncated, "%d of %d tensors written", w.next, w.count))
	}
	if err := w.write(w.tail); err != nil {
		return err
	}
	if err := w.write(le.AppendUint32(nil, w.sum.CRC32)); err != nil {
		return err
	}
	w.err = layout.ErrClosed
	return nil
}

func (w *Writer) begin() (*layout.Tensor, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.next == w.count {
		return nil, w.fail(errorf(atTensors, "n_tensors", layout.ErrInvalid, "a tensor more than the %d declared", w.count))
	}
	w.next++
	return &w.index.Tensors[w.next-1], nil
}

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

// Scale is the scale with which the format's own writer stores values as int8: the largest
// magnitude over 127, or 1 where all values are 0. It is not finite where a value is not.
func Scale(values []float32) float32 {
	most := float32(0)
	for _, x := range values {
		if x != x {
			return x
		}
		most = max(most, x, -x)
	}
	if most == 0 {
		return 1
	}
	return most / 127
}

func appendValues(b []byte, t *layout.Tensor, values []float32) []byte {
	switch t.DType {
	case layout.F32:
		for _, x := range values {
			b = le.AppendUint32(b, math.Float32bits(x))
		}
	case layout.F16:
		for _, x := range values {
			b = le.AppendUint16(b, float16(x))
		}
	case layout.I8:
		for _, x := range values {
			b = append(b, byte(int8OfScale(x, t.Quant.Scale)))
		}
	}
	return b
}

// int8OfScale divides in binary32, as the format's own writer does. What is no number, as 0
// over a scale of 0, is 0.
func int8OfScale(x, scale float32) int8 {
	q := math.Round(float64(x / scale))
	if q != q {
		return 0
	}
	return int8(max(-127, min(q, 127)))
}

// float16 is the binary16 nearest to x, ties to even.
func float16(x float32) uint16 {
	const (
		infinity  = 0x7c00
		quiet     = 0x0200
		smallest  = 0x38800000 // 2^-14, the least that is not subnormal
		tooLarge  = 0x477ff000 // 65520, from which on the nearest is infinity
		rebias    = (127 - 15) << 10
		halfLower = 0.5 // subnormals are multiples of 2^-24, as is the last bit of 0.5 in binary32
	)
	b := math.Float32bits(x)
	sign, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | infinity | quiet | uint16(b>>13&0x3ff)
	case b >= tooLarge:
		return sign | infinity
	case b < smallest:
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+halfLower)-math.Float32bits(halfLower))
	}
	b += 0x0fff + b>>13&1 // half of what is cut off, and rounded down if that is even
	return sign | uint16(b>>13-rebias)
}
