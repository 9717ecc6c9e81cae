package dequant

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/tensormap/tensormap/layout"
)

var (
	// ErrLength is wrapped where source and destination do not fit each other, or do
	// not fill whole blocks.
	ErrLength = errors.New("lengths do not fit")
	// ErrUnsupported is wrapped where a type has no expansion, or no quantizer. It is
	// layout's.
	ErrUnsupported = layout.ErrUnsupported
	// ErrOverflow is wrapped where an integer less its zero point does not fit 64 bits.
	ErrOverflow = errors.New("integer overflow")
)

// Supported reports whether elements of type d have a float32 value that Expand can give.
func Supported(d layout.DType) bool {
	return inBlocks(d) || d.HeadBytes() > 0
}

// inBlocks reports whether d is expanded block by block, by kernels.
func inBlocks(d layout.DType) bool { return int(d) < numTypes && generic.expand[d].run != nil }

// Expand writes the values of the elements in src, which are stored as type d, to dst.
// src must hold exactly the len(dst) elements, in whole blocks; otherwise the error
// wraps ErrLength. For types without an expansion it wraps ErrUnsupported. APR_Q4 and APR_Q8
// are types of whole tensors: of the first, elements may end inside the last block; of the
// second, src begins with the scale.
func Expand(d layout.DType, dst []float32, src []byte) error {
	if !fits(d, len(dst), len(src)) {
		return expandTensor(d, dst, src, oneCore)
	}
	// This is what expand comes to for most buffers; small ones would notice the way there.
	if k := &active.expand[d]; k.step <= 1 && 0 < len(dst) && len(dst) <= maxCall {
		k.run(dst, src)
		return nil
	}
	expand(d, dst, src, isLarge(len(dst), len(src)))
	return nil
}

// ExpandRange writes to dst the values of len(dst) elements of src, from element first on.
// src holds whole blocks of type d, as many as the caller has; the range may begin and end
// inside a block, and only bytes of blocks that it meets are read. For APR_Q8, src begins with
// the scale, which is read too.
func ExpandRange(d layout.DType, dst []float32, src []byte, first int) error {
	if d.HeadBytes() > 0 {
		return expandHeadedRange(d, dst, src, first)
	}
	if err := checkRange(d, len(dst), len(src), first); err != nil {
		return err
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	src = src[first/elems*size:]
	if skip := first % elems; skip != 0 && len(dst) > 0 {
		n := expandPart(d, dst, src, skip)
		dst, src = dst[n:], src[size:]
	}
	blocks := len(dst) / elems
	expand(d, dst[:blocks*elems], src[:blocks*size], isLarge(len(dst), blocks*size))
	if rest := dst[blocks*elems:]; len(rest) > 0 {
		expandPart(d, rest, src[blocks*size:], 0)
	}
	return nil
}

func check(d layout.DType, elems, size int) error {
	if fits(d, elems, size) {
		return nil
	}
	return mismatch(d, elems, size)
}

// A blockSize is in elements and in bytes.
type blockSize struct {
	log2Elems uint8  // a block's elements are a power of two
	bytes     uint16 // 0 for types without an expansion
}

// blockSizes are what fits needs, at hand: for small buffers the checks count.
var blockSizes = func() (sizes [256]blockSize) {
	for d := range layout.DType(numTypes) {
		if inBlocks(d) {
			sizes[d] = blockSize{uint8(bits.Len(uint(d.BlockElems())) - 1), uint16(d.BlockBytes())}
		}
	}
	return sizes
}()

// fits reports whether elems elements of type d have an expansion and are whole blocks of size
// bytes in all. The product cannot overflow: memory has room for fewer than 2⁶¹ float32s, and
// no element of these types takes more than 8 bytes.
func fits(d layout.DType, elems, size int) bool {
	b := blockSizes[d]
	shift := b.log2Elems & 63 // spares the compiler longer shifts
	blocks := uint64(elems) >> shift
	return blocks<<shift == uint64(elems) && blocks*uint64(b.bytes) == uint64(size) && b.bytes != 0
}

// mismatch is the error where fits is false.
func mismatch(d layout.DType, elems, size int) error {
	if !Supported(d) {
		return fmt.Errorf("dequant: %v has no expansion to float32: %w", d, ErrUnsupported)
	}
	be, bb := d.BlockElems(), d.BlockBytes()
	if wholeTensors(d) {
		return fmt.Errorf("dequant: %v: %d elements take %d bytes, not %d: %w", d, elems, tensorBytes(d, elems), size, ErrLength)
	}
	if elems%be != 0 {
		return fmt.Errorf("dequant: %v: %d elements are no multiple of the block of %d: %w", d, elems, be, ErrLength)
	}
	return fmt.Errorf("dequant: %v: %d elements are %d blocks of %d bytes, not %d bytes: %w", d, elems, elems/be, bb, size, ErrLength)
}

func checkRange(d layout.DType, elems, size, first int) error {
	if !Supported(d) {
		return check(d, elems, size)
	}
	be, bb := d.BlockElems(), d.BlockBytes()
	if size%bb != 0 {
		return fmt.Errorf("dequant: %v: %d bytes are no multiple of the block of %d: %w", d, size, bb, ErrLength)
	}
	// In 64 bits, because a block has more elements than bytes and int may have 32.
	total := uint64(size/bb) * uint64(be)
	if first < 0 || uint64(first) > total || uint64(elems) > total-uint64(first) {
		return fmt.Errorf("dequant: %v: %d elements from %d on are not within the %d stored: %w", d, elems, first, total, ErrLength)
	}
	return nil
}

// expand runs the active kernel over checked whole blocks.
func expand(d layout.DType, dst []float32, src []byte, large bool) {
	elems, size := d.BlockElems(), d.BlockBytes()
	k := &active.expand[d]
	run := k.run
	if large && k.stream != nil {
		head := min(unaligned(dst), len(dst))
		if head == 0 {
			run = k.stream
		} else if elems == 1 {
			generic.expand[d].run(dst[:head], src[:head*size])
			dst, src = dst[head:], src[head*size:]
			run = k.stream
		}
	}
	for n := wholeSteps(len(dst)/elems, k.step); n > 0; {
		c := wholeSteps(min(n, maxCall/elems), k.step)
		run(dst[:c*elems], src[:c*size])
		dst, src, n = dst[c*elems:], src[c*size:], n-c
	}
	if len(dst) > 0 {
		generic.expand[d].run(dst, src)
	}
}

// blockBuffers hold one expanded block, of which expandPart's caller wants a part. They
// are pooled because a call through a table lets its arguments escape.
var blockBuffers = sync.Pool{New: func() any { return new([maxBlock]float32) }}

// maxBlock is the largest number of elements in a block.
const maxBlock = 256

// expandPart fills dst from element skip of src's first block on, and returns how many
// elements that gave.
func expandPart(d layout.DType, dst []float32, src []byte, skip int) int {
	buf := blockBuffers.Get().(*[maxBlock]float32)
	defer blockBuffers.Put(buf)
	block := buf[:d.BlockElems()]
	expand(d, block, src[:d.BlockBytes()], false)
	return copy(dst, block[skip:])
}
