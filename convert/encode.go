package convert

import (
	"cmp"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/quantize"
)

// step is the number of elements that are expanded and encoded at a time: enough to occupy all
// cores, few enough to take little memory. It is a multiple of every block.
const step = 1 << 20

// buffers are memory for a step, which all tensors of a conversion use. The zero value has none yet.
type buffers struct {
	values, decoded []float32
	encoded         []byte
}

// rows returns b.values cut to whole rows of n elements: as many as it holds, but at least one. The three buffers grow to hold
// step elements, or n if that is more. New buffers lose the contents of the old. n is not 0.
func (b *buffers) rows(n int) []float32 {
	if size := max(n, step); len(b.values) < size {
		b.values, b.decoded = mmapio.Aligned[float32](size), mmapio.Aligned[float32](size)
		b.encoded = make([]byte, 4*size) // no type to encode as is wider than F32
	}
	return b.values[:len(b.values)/n*n]
}

// writeTo writes the tensor's bytes in its new encoding to w. It copies them, or re-encodes the values as reencodeTo does, by
// importance if t is Weighted. It returns how many values the new encoding does not hold. It fails if the source cannot be read,
// if w fails, or if reencodeTo does.
func (t *Tensor) writeTo(w io.Writer, importance Importance, buf *buffers) (lost quantize.Loss, err error) {
	switch {
	case t.Reencoded && t.Weighted:
		return t.reencodeTo(w, importance[t.Name], buf)
	case t.Reencoded:
		return t.reencodeTo(w, nil, buf)
	case t.headBytes == 0:
		_, err = t.source.WriteTo(w)
	default: // all bytes but the head, whose scale has gone into the metadata
		rest := io.NewSectionReader(t.source, int64(t.headBytes), int64(t.source.RawBytes())-int64(t.headBytes))
		buf.rows(1)
		// The wrappers hide methods that CopyBuffer would prefer to the buffer.
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{rest}, buf.encoded)
	}
	return lost, err
}

// reencodeTo encodes the tensor's values as t.To, and writes them to w. It sets t.Errors, unless t.To is F32. importance has
// one number for each column, or is nil. It returns how many values the new encoding does not hold. It fails if the source
// cannot be read, or if w fails. It also fails if numbers became NaN or infinite.
func (t *Tensor) reencodeTo(w io.Writer, importance []float32, buf *buffers) (lost quantize.Loss, err error) {
	codec, err := dequant.NewCodec(t.To, t.scale, t.hasScale)
	if err != nil {
		return lost, err
	}
	if t.To != layout.F32 { // which holds all values
		t.Errors = new(survey.Errors)
	}
	count, columns := matrices(t.Shape)
	elements, _ := layout.Elements(t.Shape)
	done, rows := 0, 1 // elements that are encoded; those of a row if importance counts
	if importance != nil && elements > 0 {
		rows = columns
	}
	values := buf.rows(rows)
	encode := func(values []float32) error { // encodes the next values of the tensor and writes them to w
		for len(values) > 0 {
			n, importance := len(values), importance
			if importance != nil {
				size := int(elements) / count // of a matrix
				n = min(n, size-done%size)
				if len(importance) > columns { // each matrix has its own
					importance = importance[done/size*columns:][:columns]
				}
			}
			done += n
			encoded := buf.encoded[:n/t.To.BlockElems()*t.To.BlockBytes()]
			more, err := quantize.EncodeLoss(codec, encoded, values[:n], importance, buf.decoded, dequant.AllCores)
			if err := cmp.Or(err, more.Err()); err != nil {
				return fmt.Errorf("tensor %s as %v: %w", layout.Quote([]byte(t.Name)), t.To, err)
			}
			lost.Add(more)
			if t.To != layout.F32 {
				t.Errors.Add(errorsOf(values[:n], buf.decoded[:n]))
			}
			if _, err = w.Write(encoded); err != nil {
				return err
			}
			values = values[n:]
		}
		return nil
	}
	// t.source.Values would read a restored type as the integers that stand for it, and would not count what F64 loses. ReadAt
	// would unpack a packed tensor for each call.
	if isRestored := t.original != nil && t.From != t.source.DType(); isRestored || t.source.DType() == layout.F64 {
		d, err := newDecoder(t, values, encode)
		if err != nil {
			return lost, err
		}
		if _, err = t.source.WriteTo(d); err == nil {
			err = d.flush()
		}
		lost.Add(d.loss)
		return lost, err
	}
	for run, err := range t.source.Values(values) {
		if err == nil {
			err = encode(run.Values)
		}
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// errorsChunk is the number of values whose errors are summed before sums are merged. It is a multiple of every block.
const errorsChunk = 1 << 16

// errorsOf returns the errors of decoded, the values of encoded elements, against values. It works on all cores, and its
// sums do not depend on their number.
func errorsOf(values, decoded []float32) (sum survey.Errors) {
	chunks := make([]survey.Errors, (len(values)+errorsChunk-1)/errorsChunk)                 // every lo below is a multiple of errorsChunk
	_ = simd.InParallel(dequant.AllCores, len(values), errorsChunk, func(lo, hi int) error { // no error
		for ; lo < hi; lo += errorsChunk {
			end := min(lo+errorsChunk, hi)
			chunks[lo/errorsChunk] = survey.ErrorsOf(values[lo:end], decoded[lo:end])
		}
		return nil
	})
	for _, e := range chunks {
		sum.Add(e)
	}
	return sum
}

// decoder decodes the bytes that are written to it, and passes their values on to encode. It counts F64s that float32 does
// not hold.
type decoder struct {
	dtype           layout.DType // of the bytes
	codec           dequant.Codec
	undecodedBytes  []byte        // bytes that are not decoded yet; the capacity is whole blocks, those of values
	values          []float32     // as many as are decoded at a time
	decodedElements uint64        // elements decoded so far
	loss            quantize.Loss // of F64s
	encode          func(values []float32) error
}

// newDecoder returns a decoder of t's bytes, as elements of type t.From. It calls encode with len(values) values at a time, in
// the memory of values, which must hold whole blocks. It fails if package dequant does not expand the type.
func newDecoder(t *Tensor, values []float32, encode func(values []float32) error) (*decoder, error) {
	codec, err := dequant.NewCodec(t.From, layout.Quant{}, false)
	if err != nil {
		return nil, err
	}
	_, size := codec.Span(0, uint64(len(values))) // in bytes
	return &decoder{dtype: t.From, codec: codec, undecodedBytes: make([]byte, 0, size), values: values, encode: encode}, nil
}

// Write takes the next bytes of the tensor, and returns how many it took. It calls flush whenever its buffer is full, and
// fails if flush does. The last call must be followed by one of flush.
func (d *decoder) Write(b []byte) (written int, err error) {
	for written < len(b) && err == nil {
		n := min(len(b)-written, cap(d.undecodedBytes)-len(d.undecodedBytes))
		d.undecodedBytes = append(d.undecodedBytes, b[written:][:n]...)
		if written += n; len(d.undecodedBytes) == cap(d.undecodedBytes) {
			err = d.flush()
		}
	}
	return written, err
}

// flush decodes the bytes that have been written since the last flush, which are whole blocks, and calls encode with their
// values. It does nothing if there are none. It fails if decoding or encode does.
func (d *decoder) flush() error {
	n := len(d.undecodedBytes) / d.dtype.BlockBytes() * d.dtype.BlockElems()
	if n == 0 {
		return nil
	}
	values := d.values[:n]
	if err := d.codec.Expand(values, d.undecodedBytes, d.decodedElements, dequant.AllCores); err != nil {
		return err
	}
	if d.dtype == layout.F64 {
		d.loss.AddNarrowed(d.undecodedBytes, values)
	}
	d.undecodedBytes, d.decodedElements = d.undecodedBytes[:0], d.decodedElements+uint64(n)
	return d.encode(values)
}
