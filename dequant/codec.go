package dequant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// A Codec says how the stored elements of one tensor become float32s: by their type, the scale of integers, and the
// content of the tensor's head. It is immutable.
type Codec struct {
	dtype     layout.DType // of the elements behind the head
	headBytes int          // bytes before the elements
	hasScale  bool         // the elements are integers that quant maps
	scale     layout.Quant // if hasScale is set
}

// AllCores is the number of cores that stands for all of GOMAXPROCS.
const AllCores = 0

// NewCodec returns the codec of elements of type d. If hasScale is set, the elements are integers that q maps to
// values. The error wraps errors.ErrUnsupported if d has no expansion, or if tensors of type d begin with a head. It also
// wraps errors.ErrUnsupported if hasScale is set and d is not a signed integer.
func NewCodec(d layout.DType, q layout.Quant, hasScale bool) (Codec, error) {
	switch {
	case hasScale && d.Kind() != layout.KindInt:
		return Codec{}, fmt.Errorf("dequant: %v takes no scale: %w", d, errors.ErrUnsupported)
	case hasScale:
		return Codec{dtype: d, hasScale: true, scale: q}, nil
	case d.HeadBytes() > 0:
		return Codec{}, fmt.Errorf("dequant: %v without its head: %w", d, errors.ErrUnsupported)
	case !hasKernel(d):
		return Codec{}, unsupported(d)
	}
	return Codec{dtype: d}, nil
}

// ReadHead returns the codec of a tensor of type d. head has the tensor's first bytes: ReadHead reads d.HeadBytes() of them, and
// ignores the rest. The error wraps ErrLength if head is shorter, and errors.ErrUnsupported if d has no expansion. APR_Q8 is the
// one type with a head: a little-endian float32, which is the scale of the int8s behind it.
func ReadHead(d layout.DType, head []byte) (Codec, error) {
	n := d.HeadBytes()
	switch {
	case n == 0:
		return NewCodec(d, layout.Quant{}, false)
	case len(head) < n:
		return Codec{}, fmt.Errorf("dequant: %v: %d bytes of a head of %d: %w", d, len(head), n, ErrLength)
	}
	scale := math.Float32frombits(binary.LittleEndian.Uint32(head))
	return Codec{dtype: layout.I8, headBytes: n, hasScale: true, scale: layout.Quant{Scale: scale}}, nil
}

// Elements returns the type of the elements, which lie behind the head if the tensor has one. If hasScale is true, they are
// integers with the given scale.
func (c Codec) Elements() (d layout.DType, scale layout.Quant, hasScale bool) {
	return c.dtype, c.scale, c.hasScale
}

// ByteRange returns the offset and the size, in bytes, of the blocks that hold elements [first, first+n). off counts from
// the tensor's first byte, so that it is never less than the size of the head. The range never includes the head. If n is
// 0, size is 0.
func (c Codec) ByteRange(first, n uint64) (off, size uint64) {
	off, size = c.dtype.ByteRange(first, n)
	return uint64(c.headBytes) + off, size
}

// Expand writes the values of elements [first, first+len(dst)) to dst. src must hold the bytes that ByteRange names, or
// the error wraps ErrLength. It wraps ErrOverflow if an integer less its zero point does not fit
// 64 bits, and errors.ErrUnsupported for the zero Codec.
//
// Expand shares a large dst out to at most cores goroutines, the caller's among them, and returns when all have
// finished. AllCores means as many goroutines as GOMAXPROCS. A panic in a goroutine reappears in the caller, so that
// a caller can recover from faults of a mapping. A small dst is expanded without allocating.
func (c Codec) Expand(dst []float32, src []byte, first uint64, cores int) error {
	if !hasKernel(c.dtype) {
		return unsupported(c.dtype)
	}
	inBlock := c.dtype.BlockElems() - 1 // BlockElems is a power of two: this mask leaves an element's index in its block
	skip := int(first) & inBlock
	if c.bytesOf(skip, len(dst)) != len(src) {
		return c.errLength(len(dst), len(src), first)
	}
	// This is the fast path, for rows of whole blocks: the rest of Expand would cost small buffers time.
	if k := &active.expand[c.dtype]; k.step <= 1 && 0 < len(dst) && len(dst) < simd.ParallelMin && skip|len(dst)&inBlock == 0 && !c.hasScale {
		k.run(dst, src)
		return nil
	}
	bypassesCaches := isLarge(len(dst), len(src))
	if cores == 1 || len(dst) < simd.ParallelMin {
		return c.expand(dst, src, skip, bypassesCaches) // without the closure, which would be allocated
	}
	return simd.InParallel(cores, skip+len(dst), simd.ParallelGrain, func(lo, hi int) error {
		// lo and hi count elements from the start of the first block. dst begins with element skip of that block.
		from := max(lo, skip)
		return c.expand(dst[from-skip:hi-skip], src[c.bytesOf(0, lo):][:c.bytesOf(0, hi-lo)], from-lo, bypassesCaches)
	})
}

// bytesOf returns the size, in bytes, of the blocks that hold n consecutive elements. skip is the index of the first of these
// elements in its block, counted from 0. If n is 0, the size is 0.
func (c Codec) bytesOf(skip, n int) int {
	if n == 0 {
		return 0
	}
	elems := c.dtype.BlockElems()
	return (skip + n + elems - 1) / elems * c.dtype.BlockBytes()
}

// errLength returns the error for a source of size bytes, if the blocks of elements [first, first+elems) have another size. The
// error wraps ErrLength.
func (c Codec) errLength(elems, size int, first uint64) error {
	_, want := c.dtype.ByteRange(first, uint64(elems))
	block := c.dtype.BlockBytes()
	return fmt.Errorf("dequant: %v: elements %d to %d are %d blocks of %d bytes, not %d bytes: %w",
		c.dtype, first, first+uint64(elems), want/uint64(block), block, size, ErrLength)
}

// expand writes the values of len(dst) elements to dst, on the caller's core. dst[0] is element skip of src's first block. src
// has exactly the blocks that dst needs. bypassesCaches lets kernels store past the caches. It fails with ErrOverflow if an
// integer less its zero point does not fit 64 bits.
func (c Codec) expand(dst []float32, src []byte, skip int, bypassesCaches bool) error {
	if skip > 0 && len(dst) > 0 { // skip is 0 for types with a scale, whose blocks have one element
		n := expandBlock(c.dtype, dst, src, skip)
		dst, src = dst[n:], src[c.dtype.BlockBytes():]
	}
	whole := len(dst) &^ (c.dtype.BlockElems() - 1)
	size := c.bytesOf(0, whole)
	if rest := dst[whole:]; len(rest) > 0 { // dst ends within a block
		expandBlock(c.dtype, rest, src[size:], 0)
	}
	if c.hasScale {
		return expandScaled(c.dtype, dst[:whole], src[:size], c.scale.Scale, c.scale.Zero)
	}
	expand(c.dtype, dst[:whole], src[:size], bypassesCaches)
	return nil
}
