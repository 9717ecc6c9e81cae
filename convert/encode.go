package convert

import (
	"cmp"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/quantize"
)

// step counts the elements that are expanded and encoded at a time: enough to occupy all
// cores, few enough to be no burden. It is a multiple of every block.
const step = 1 << 20

// buffers are reused from tensor to tensor.
type buffers struct {
	values, decoded []float32
	encoded         []byte
	wide            []byte // of F64s
}

func (b *buffers) step() []float32 { return b.rows(1) }

// rows returns a buffer for as many whole rows of n elements as a step has, or for one.
func (b *buffers) rows(n int) []float32 {
	if n := max(n, step); len(b.values) < n {
		b.values, b.decoded = mmapio.Aligned[float32](n), mmapio.Aligned[float32](n)
		b.encoded = make([]byte, 4*n)
	}
	return b.values[:len(b.values)/n*n]
}

// copied reports whether all bytes of the elements are written as they are.
func (t *Tensor) copied() bool { return !t.Reencoded && t.skip == 0 }

// writeTo writes the tensor's bytes in its new encoding, and counts the values that that loses.
func (t *Tensor) writeTo(w io.Writer, buf *buffers) (lost quantize.Loss, err error) {
	switch {
	case t.copied():
		_, err := t.source.WriteTo(w)
		return lost, err
	case !t.Reencoded:
		rest := io.NewSectionReader(t.source, int64(t.skip), int64(t.source.RawBytes())-int64(t.skip))
		buf.step()
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{rest}, buf.encoded)
		return lost, err
	}
	buf.step()
	codec, err := dequant.NewCodec(t.To, t.quant, t.scaled)
	if err != nil {
		return lost, err
	}
	weights := t.weights()
	encode := func(values []float32) error {
		for len(values) > 0 {
			n, importance := weights.next(len(values))
			encoded := buf.encoded[:n/t.To.BlockElems()*t.To.BlockBytes()]
			more, err := quantize.EncodeLoss(codec, encoded, values[:n], importance, buf.decoded, dequant.AllCores)
			if err := cmp.Or(err, more.Err()); err != nil {
				return fmt.Errorf("tensor %s as %v: %w", layout.Quote([]byte(t.Name)), t.To, err)
			}
			lost.Add(more)
			if _, err = w.Write(encoded); err != nil {
				return err
			}
			values = values[n:]
		}
		return nil
	}
	if t.source.DType() == layout.F64 && weights.row == 0 {
		n := narrower{buf: buf, lost: &lost, encode: encode}
		if _, err := t.source.WriteTo(&n); err != nil {
			return lost, err
		}
		return lost, n.flush()
	}
	if t.restored != nil && t.From != t.source.DType() {
		return lost, t.restoredValues(buf.step(), encode)
	}
	for run, err := range t.source.Values(buf.rows(max(weights.row, 1))) {
		if err == nil {
			err = encode(run.Values)
		}
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// restoredValues encodes the values of elements that the source stores as integers of the same bits, in buf.
func (t *Tensor) restoredValues(buf []float32, encode func(values []float32) error) error {
	codec, err := dequant.NewCodec(t.From, layout.Quant{}, false)
	if err != nil {
		return err
	}
	n, _ := layout.Elements(t.restored.shape)
	_, size := codec.Span(0, min(n, uint64(len(buf))))
	src := make([]byte, size)
	for first := uint64(0); first < n; first += uint64(len(buf)) {
		values := buf[:min(n-first, uint64(len(buf)))]
		off, size := codec.Span(first, uint64(len(values)))
		if _, err := t.source.ReadAt(src[:size], int64(off)); err != nil {
			return err
		}
		if err := cmp.Or(codec.Expand(values, src[:size], first, dequant.AllCores), encode(values)); err != nil {
			return err
		}
	}
	return nil
}

// narrower encodes the F64s written to it as float32s, a step at a time. It counts the values
// that float32 does not hold.
type narrower struct {
	buf    *buffers
	n      int // bytes in buf.wide
	lost   *quantize.Loss
	encode func(values []float32) error
}

func (n *narrower) Write(b []byte) (written int, err error) {
	if n.buf.wide == nil {
		n.buf.wide = make([]byte, 8*step)
	}
	for written < len(b) {
		more := copy(n.buf.wide[n.n:], b[written:])
		n.n += more
		written += more
		if n.n == len(n.buf.wide) {
			if err := n.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush encodes what has been written since the last flush.
func (n *narrower) flush() error {
	stored, values := n.buf.wide[:n.n], n.buf.step()[:n.n/8]
	n.n = 0
	if len(values) == 0 {
		return nil
	}
	codec, err := dequant.NewCodec(layout.F64, layout.Quant{}, false)
	if err == nil {
		err = codec.Expand(values, stored, 0, dequant.AllCores)
	}
	if err != nil {
		return err
	}
	n.lost.AddNarrowed(stored, values)
	return n.encode(values)
}
