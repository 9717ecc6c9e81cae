package loader

import (
	"fmt"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/blocks"
	"github.com/tensormap/tensormap/mmapio"
)

// Expandable returns why the tensor has no values in float32, or nil. Methods that give values
// return the same error.
func (t Tensor) Expandable() error {
	if t.weight != 0 {
		if err := t.inScheme().Err; err != nil {
			return err
		}
	}
	if !t.logical() && !dequant.Supported(t.desc.DType) {
		why := ""
		if t.desc.DType.Kind() == layout.KindComplex {
			why = ": complex numbers are two each"
		}
		return fmt.Errorf("%w: %s has no values in float32%s", ErrUnsupported, t.desc.DType, why)
	}
	return t.readable()
}

// codec returns how the stored elements become values: by their type, by the scale that the file
// gives integers, or by the head of the tensor, which is read once.
func (t Tensor) codec() (c dequant.Codec, err error) {
	if err := t.Expandable(); err != nil {
		return c, err
	}
	n := t.desc.DType.HeadBytes()
	if n == 0 {
		q, scaled, err := t.scale()
		if err != nil {
			return c, err
		}
		return dequant.NewCodec(t.desc.DType, q, scaled)
	}
	codecs := &t.file.model.codecs
	if known, ok := codecs.Load(t.desc); ok {
		return known.(dequant.Codec), nil
	}
	head := make([]byte, n)
	if t.desc.Raw > 0 { // else there is none
		err = t.readAt(head, 0)
	}
	if err == nil {
		c, err = dequant.ReadHead(t.desc.DType, head)
	}
	if err == nil {
		codecs.Store(t.desc, c)
	}
	return c, err
}

// expand writes the values of n elements, from element first on, to to. All stored bytes become
// values here. The caller has checked that the elements exist.
func (t Tensor) expand(c dequant.Codec, to mmapio.Destination[float32], first, n uint64) error {
	if n == 0 {
		return nil
	}
	off, size := c.Span(first, n)
	elements, ok, err := t.inMemory(off, size)
	switch {
	case err != nil:
		return err
	case ok:
		dst := to.Room(first, n)
		return to.Filled(first, dst, mmapio.Guard(func() error {
			return c.Expand(dst, elements, first, dequant.AllCores)
		}))
	case t.desc.Encoding == layout.Raw:
		return t.readAndExpand(c, to, first, n)
	}
	return mmapio.Guard(func() error { return blocks.Expand(t.blocks(), c, to, first, n) })
}

// inMemory returns n bytes of the elements from byte off on if the mapping or the cache holds them.
func (t Tensor) inMemory(off, n uint64) (b []byte, ok bool, err error) {
	if t.inPlace() {
		b, err = t.file.content.SliceContext(t.ctx(), t.desc.Offset+off, n)
		return b, err == nil, err
	}
	if b, ok, err = t.cached(); ok {
		b = b[off:][:n:n]
	}
	return b, ok, err
}

// readStep is the number of elements read at a time from a file that is not mapped. farStep is the number if the
// file wants large reads. Both are multiples of every block.
const (
	readStep = 1 << 18
	farStep  = 1 << 22
)

// readAndExpand expands from a file that is not mapped, through a buffer of fixed size.
func (t Tensor) readAndExpand(c dequant.Codec, to mmapio.Destination[float32], first, n uint64) error {
	step := uint64(readStep)
	if t.file.wantsLargeReads() {
		step = farStep
	}
	_, most := c.Span(first%step, min(step, n))
	buf := mmapio.AlignedBytes(int(most))
	for end := first + n; first < end; {
		// Steps after the first begin at a block.
		dst := to.Room(first, min(end-first, step-first%step))
		off, size := c.Span(first, uint64(len(dst)))
		err := t.file.readContent(t.ctx(), buf[:size], t.desc.Offset+off)
		if err == nil {
			err = c.Expand(dst, buf[:size], first, dequant.AllCores)
		}
		if err := to.Filled(first, dst, err); err != nil {
			return err
		}
		first += uint64(len(dst))
	}
	return nil
}
