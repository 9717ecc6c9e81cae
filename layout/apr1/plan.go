package apr1

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// plan is all of a file to be written but its tensors.
type plan struct {
	head []byte
	tail []byte
	size uint64 // of the file
}

func newPlan(tensors []layout.Tensor, opts *Options) (*plan, error) {
	if n := len(tensors); n == 0 || n > math.MaxUint16 {
		return nil, errorf(atTensors, "n_tensors", layout.ErrLimit, "%d, not 1 to %d", n, math.MaxUint16)
	}
	h := Header{Version: 1, ModelType: opts.ModelType, Tensors: uint16(len(tensors)), Dimensions: opts.Dimensions}
	var err error
	if h.Quantization, err = quantization(tensors); err != nil {
		return nil, err
	}
	p := &plan{}
	if err := p.encodeTail(&h, opts); err != nil {
		return nil, err
	}
	return p, p.encodeHead(&h, tensors)
}

// quantization finds the one that all tensors have.
func quantization(tensors []layout.Tensor) (Quantization, error) {
	for q, is := range quantizations {
		if is.dtype != tensors[0].DType {
			continue
		}
		for i := range tensors {
			if t := &tensors[i]; t.DType != is.dtype {
				return 0, refuse(t, atQuantization, "quantization", layout.ErrUnsupported, "%v among tensors of %v: the format has one type for all", t.DType, is.dtype)
			}
		}
		return Quantization(q), nil
	}
	return 0, refuse(&tensors[0], atQuantization, "quantization", layout.ErrUnsupported, "%v, not F32, F16 or I8", tensors[0].DType)
}

// encodeHead writes all before the data, and finds the size of the file.
func (p *plan) encodeHead(h *Header, tensors []layout.Tensor) error {
	p.head = appendHeader(make([]byte, 0, headSize+(entrySize+4)*len(tensors)), h)
	data := uint64(0)
	for i := range tensors {
		size, err := p.entry(&tensors[i], data)
		if err != nil {
			return err
		}
		data += size
	}
	if h.Quantization == Int8 {
		for i := range tensors {
			p.head = le.AppendUint32(p.head, math.Float32bits(tensors[i].Quant.Scale))
		}
	}
	p.size = uint64(len(p.head)+len(p.tail)) + crcSize + data
	return nil
}

// entry writes the index entry of t, whose bytes are at offset of the data. It checks what
// the fields cannot hold; Decode does the rest.
func (p *plan) entry(t *layout.Tensor, offset uint64) (size uint64, err error) {
	at := uint64(len(p.head))
	size, err = t.DType.Size(t.Shape)
	switch {
	case err != nil:
		return 0, refuse(t, at+inShape, "shape", layout.ErrInvalid, "%v", err)
	case len(t.Name) >= nameSize:
		return 0, refuse(t, at, "name", layout.ErrLimit, "%d bytes, more than %d", len(t.Name), nameSize-1)
	case !utf8.Valid(t.Name): // of which Decode would take one that looks cut
		return 0, refuse(t, at, "name", layout.ErrInvalid, "not valid UTF-8")
	case bytes.IndexByte(t.Name, 0) >= 0:
		return 0, refuse(t, at, "name", layout.ErrInvalid, "holds a NUL byte")
	case len(t.Shape) > maxDims:
		return 0, refuse(t, at+inDims, "n_dims", layout.ErrLimit, "%d dimensions, more than %d", len(t.Shape), maxDims)
	case t.DType == layout.I8 && (!t.Scaled || t.Quant.Zero != 0):
		return 0, refuse(t, at, "scale", layout.ErrInvalid, "int8 with a zero point, or without a scale")
	case size > math.MaxInt64-offset-1<<40: // what else the file holds is less than 2^40 bytes
		return 0, refuse(t, at+inSize, "size", layout.ErrLimit, "%d bytes at %d make the file larger than 2^63 bytes", size, offset)
	}
	elements, _ := layout.Elements(t.Shape)
	b := make([]byte, entrySize)
	copy(b, t.Name)
	le.PutUint64(b[inOffset:], offset)
	le.PutUint64(b[inSize:], size)
	le.PutUint64(b[inElements:], elements)
	for i, dim := range t.Shape {
		if dim > math.MaxUint32 {
			return 0, refuse(t, at+inShape, "shape", layout.ErrLimit, "%v: %d does not fit 32 bits", t.Shape, dim)
		}
		le.PutUint32(b[inShape+4*i:], uint32(dim))
	}
	b[inDims] = byte(len(t.Shape))
	p.head = append(p.head, b...)
	return size, nil
}

// encodeTail writes vocabulary and filterbank, and sets their flags.
func (p *plan) encodeTail(h *Header, opts *Options) error {
	if opts.Vocabulary != nil {
		h.Flags |= HasVocab
		if err := p.vocabulary(opts.Vocabulary); err != nil {
			return err
		}
	}
	if opts.Filterbank != nil {
		h.Flags |= HasFilterbank
		return p.filterbank(opts.Filterbank)
	}
	return nil
}

func (p *plan) vocabulary(v *Vocabulary) error {
	n, err := v.size()
	if err != nil {
		return err
	}
	b, err := p.section("vocabulary_size", n)
	if err != nil {
		return err
	}
	b = le.AppendUint32(b, uint32(len(v.Tokens)))
	b = le.AppendUint32(b, uint32(len(v.Merges)))
	for s := range v.strings() {
		b = le.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	p.tail = b
	return nil
}

// strings are all strings of v in the order of the file.
func (v *Vocabulary) strings() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range v.Tokens {
			if !yield(s) {
				return
			}
		}
		for _, pair := range v.Merges {
			if !yield(pair[0]) || !yield(pair[1]) {
				return
			}
		}
	}
}

// size is the number of bytes of the section, without its size.
func (v *Vocabulary) size() (uint64, error) {
	n := uint64(countsSize)
	for s := range v.strings() {
		if len(s) > math.MaxUint16 {
			return 0, errorf(atFlags, "tokens", layout.ErrLimit, "a string of %d bytes, more than %d", len(s), math.MaxUint16)
		}
		n += 2 + uint64(len(s))
	}
	return n, nil
}

func (p *plan) filterbank(fb *Filterbank) error {
	if n := uint64(fb.NMels) * uint64(fb.NFreqs); n != uint64(len(fb.Data)) {
		return errorf(atFlags, "n_freqs", layout.ErrInvalid, "%d values, not %d × %d", len(fb.Data), fb.NMels, fb.NFreqs)
	}
	b, err := p.section("filterbank_size", countsSize+4*uint64(len(fb.Data)))
	if err != nil {
		return err
	}
	b = le.AppendUint32(b, fb.NMels)
	b = le.AppendUint32(b, fb.NFreqs)
	for _, x := range fb.Data {
		b = le.AppendUint32(b, math.Float32bits(x))
	}
	p.tail = b
	return nil
}

// section starts a section of n bytes behind the tail, and makes room for them.
func (p *plan) section(field string, n uint64) ([]byte, error) {
	if most := (*layout.Limits)(nil).WithDefaults().HeaderBytes; n > most {
		return nil, errorf(atFlags, field, layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	return le.AppendUint32(slices.Grow(p.tail, sizeSize+int(n)), uint32(n)), nil
}

// readBack is the index of the planned file. Decoding makes sure of all that is not checked
// before, so that nothing is written which cannot be read.
func (p *plan) readBack() (*layout.Index, error) {
	f, err := Decode(planned{p}, nil)
	if err != nil {
		return nil, err
	}
	return f.Index(), nil
}

// planned is a file of which the tensors do not exist yet.
type planned struct{ *plan }

func (p planned) Size() uint64 { return p.size }

func (p planned) Slice(off, n uint64) ([]byte, error) {
	if behind := p.size - crcSize - uint64(len(p.tail)); off >= behind {
		return layout.Bytes(p.tail).Slice(off-behind, n)
	}
	return layout.Bytes(p.head).Slice(off, n)
}
