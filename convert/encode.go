package convert

import (
	"io"
	"iter"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
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

func (b *buffers) step() []float32 {
	if b.values == nil {
		b.values, b.decoded = mmapio.Aligned[float32](step), mmapio.Aligned[float32](step)
		b.encoded = make([]byte, 4*step)
	}
	return b.values
}

// rows returns room for as many whole rows of n elements as a step has, or one.
func (b *buffers) rows(n int) []float32 {
	if n > len(b.step()) {
		b.values, b.decoded = mmapio.Aligned[float32](n), mmapio.Aligned[float32](n)
		b.encoded = make([]byte, 4*n)
	}
	return b.values[:len(b.values)/n*n]
}

// copied reports whether all bytes of the elements are written as they are.
func (t *Tensor) copied() bool { return !t.Reencoded && t.skip == 0 }

// writeTo writes the tensor's bytes in its new encoding, and counts the values that that loses.
func (t *Tensor) writeTo(w io.Writer, buf *buffers) (lost dequant.Loss, err error) {
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
			more, err := codec.QuantizeLoss(encoded, values[:n], importance, buf.decoded, dequant.AllCores)
			if err != nil {
				return err
			}
			lost.Add(more)
			if _, err = w.Write(encoded); err != nil {
				return err
			}
			values = values[n:]
		}
		return nil
	}
	values := buf.step()
	if weights.row > 0 {
		values = buf.rows(weights.row)
	}
	runs := t.source.Values(values)
	if t.source.DType() == layout.F64 {
		runs = t.narrowed(values, buf, &lost)
	}
	for run, err := range runs {
		if err == nil {
			err = encode(run.Values)
		}
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// narrowed does for F64s what Values does, and counts those that float32 does not hold.
func (t *Tensor) narrowed(values []float32, buf *buffers, lost *dequant.Loss) iter.Seq2[loader.Run, error] {
	if len(buf.wide) < 8*len(values) {
		buf.wide = make([]byte, 8*len(values))
	}
	return func(yield func(loader.Run, error) bool) {
		for first := uint64(0); first < t.Elements(); first += uint64(len(values)) {
			n := min(uint64(len(values)), t.Elements()-first)
			run, stored := loader.Run{First: first, Values: values[:n]}, buf.wide[:8*n]
			_, err := t.source.ReadAt(stored, int64(8*first))
			if err == nil {
				err = dequant.Expand(layout.F64, run.Values, stored)
				lost.AddNarrowed(stored, run.Values)
			}
			if !yield(run, err) || err != nil {
				return
			}
		}
	}
}
