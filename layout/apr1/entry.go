package apr1

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// entry reads index entry i.
func (d *decoder) entry(i int) error {
	b := d.entries[i*entrySize:][:entrySize]
	at := d.indexAt + uint64(i*entrySize)
	t := d.builder.Next()
	var err error
	if t.Name, err = d.name(b[:nameSize], at, i); err != nil {
		return err
	}
	if err = d.shape(t, b, at); err != nil {
		return err
	}
	if err = d.place(t, b, at); err != nil {
		return err
	}
	if err = d.scale(t, i); err != nil {
		return err
	}
	return d.builder.Add(at)
}

// name reads the NUL-terminated name of tensor i. Writers cut names to 47 bytes, where that
// may be inside a character: then the character becomes U+FFFD.
func (d *decoder) name(b []byte, at uint64, i int) ([]byte, error) {
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return nil, errorf(at, "name", layout.ErrInvalid, "tensor %d: %s does not end with a NUL", i, layout.Quote(b))
	}
	name := b[:n:n]
	whole := uncut(name)
	if whole < n {
		d.file.cut = append(d.file.cut, i)
		name = append(slices.Clone(name[:whole]), string(utf8.RuneError)...)
	}
	return name, nil
}

// uncut is the length of name without the first bytes of a character that goes on behind it.
func uncut(name []byte) int {
	n := len(name)
	for i := n - 1; i >= max(0, n-utf8.UTFMax); i-- {
		if utf8.RuneStart(name[i]) {
			if !utf8.FullRune(name[i:]) {
				return i
			}
			break
		}
	}
	return n
}

func (d *decoder) shape(t *layout.Tensor, b []byte, at uint64) error {
	rank := int(b[inDims])
	if rank > maxDims {
		return refuse(t, at+inDims, "n_dims", layout.ErrInvalid, "%d, more than %d", rank, maxDims)
	}
	t.Shape = d.builder.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = uint64(le.Uint32(b[inShape+4*i:]))
	}
	n := le.Uint64(b[inElements:])
	if product, ok := layout.Elements(t.Shape); !ok || product != n {
		return refuse(t, at+inElements, "n_elements", layout.ErrInvalid, "%d, but the shape is %v", n, t.Shape)
	}
	return nil
}

// place reads type and position of t, whose shape is known.
func (d *decoder) place(t *layout.Tensor, b []byte, at uint64) error {
	offset := le.Uint64(b[inOffset:])
	if offset > d.data.Size {
		// Also keeps the sum below from wrapping.
		return refuse(t, at+inOffset, "offset", layout.ErrInvalid, "%d is past the end of the data of %d bytes", offset, d.data.Size)
	}
	t.DType = quantizations[d.file.Header.Quantization].dtype
	t.Offset, t.Stored = d.data.Offset+offset, le.Uint64(b[inSize:])
	overflow, raw := bits.Mul64(le.Uint64(b[inElements:]), uint64(t.DType.BlockBytes()))
	if !d.file.Header.Compressed || t.Stored == raw || raw == 0 || overflow != 0 {
		return nil // stored raw, or else refused by the builder
	}
	t.Encoding, t.Raw = layout.LZ4, raw
	if least := (raw-1)/maxExpansion + 1; t.Stored < least {
		return refuse(t, at+inSize, "size", layout.ErrInvalid, "%d bytes stored, too few for LZ4 to make %d of them", t.Stored, raw)
	}
	return nil
}

// scale reads the scale of t, tensor i, where the file has a table of them.
func (d *decoder) scale(t *layout.Tensor, i int) error {
	if d.file.Header.Quantization != Int8 {
		return nil
	}
	scale := math.Float32frombits(le.Uint32(d.scales[4*i:]))
	if x := float64(scale); math.IsNaN(x) || math.IsInf(x, 0) {
		return refuse(t, d.indexAt+uint64(len(d.entries)+4*i), "scale", layout.ErrInvalid, "%v is not finite", scale)
	}
	if d.quants == nil {
		d.quants = make([]layout.Quant, len(d.scales)/4)
	}
	t.Quant = &d.quants[i]
	t.Quant.Scale = scale
	return nil
}
