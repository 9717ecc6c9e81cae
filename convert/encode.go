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

// writeTo writes the tensor's bytes in its new encoding to w. It copies them, or re-encodes the values by reencodeTo, with
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
	done, rows := 0, 1 // elements that are encoded; the elements of a row if importance counts
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
		narrowed, err := t.decodeTo(values, encode)
		lost.Add(narrowed)
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

// errorsOf returns the errors of decoded against values. decoded has the values that are left once values are encoded.
// errorsOf works on all cores, and its sums do not depend on their number.
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

// decodeTo decodes the source's bytes as elements of type t.From. It calls encode with len(values) decoded values at a time,
// and at last with the rest. values is the memory for decoded values, and must hold whole blocks. decodeTo returns how many
// F64s float32 does not hold. It fails if package dequant does not expand the type, if the source cannot be read, or if
// encode fails.
func (t *Tensor) decodeTo(values []float32, encode func(values []float32) error) (narrowed quantize.Loss, err error) {
	codec, err := dequant.NewCodec(t.From, layout.Quant{}, false)
	if err != nil {
		return narrowed, err
	}
	_, size := codec.ByteRange(0, uint64(len(values)))             // in bytes
	undecoded, decodedElements := make([]byte, 0, size), uint64(0) // whole blocks whenever decode is called
	decode := func() error {
		n := len(undecoded) / t.From.BlockBytes() * t.From.BlockElems()
		if n == 0 {
			return nil
		}
		if err := codec.Expand(values[:n], undecoded, decodedElements, dequant.AllCores); err != nil {
			return err
		}
		if t.From == layout.F64 {
			narrowed.AddNarrowed(undecoded, values[:n])
		}
		undecoded, decodedElements = undecoded[:0], decodedElements+uint64(n)
		return encode(values[:n])
	}
	_, err = t.source.WriteTo(writerFunc(func(b []byte) (written int, err error) {
		for written < len(b) && err == nil {
			n := min(len(b)-written, cap(undecoded)-len(undecoded))
			undecoded = append(undecoded, b[written:][:n]...)
			if written += n; len(undecoded) == cap(undecoded) {
				err = decode()
			}
		}
		return written, err
	}))
	if err == nil {
		err = decode()
	}
	return narrowed, err
}

// writerFunc is a function as an io.Writer.
type writerFunc func(b []byte) (written int, err error)

// Write calls w.
func (w writerFunc) Write(b []byte) (int, error) { return w(b) }
