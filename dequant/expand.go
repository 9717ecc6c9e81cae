package dequant

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// Callers test for these errors with errors.Is. Errors of packages dot and quantize wrap them too. For a type without an
// expansion, errors wrap errors.ErrUnsupported.
var (
	// ErrLength is wrapped if source and destination do not fit each other, or do not fill whole
	// blocks.
	ErrLength = errors.New("lengths do not fit")
	// ErrOverflow is wrapped if an integer less its zero point does not fit 64 bits.
	ErrOverflow = errors.New("integer overflow")
	// ErrNotFinite is wrapped if values cannot be quantized because a value, or the scale of a block, is a NaN or an infinity.
	ErrNotFinite = errors.New("value is not finite")
)

// Supported reports whether package dequant expands elements of type d to float32.
func Supported(d layout.DType) bool { return hasKernel(d) || d.HeadBytes() > 0 }

// hasKernel reports whether a kernel expands blocks of type d. APR_Q8, whose elements are expanded as int8s, has none.
func hasKernel(d layout.DType) bool { return int(d) < numTypes && generic.expand[d].run != nil }

// Expand writes the values of a whole tensor of type d to dst, on the caller's core. src must hold exactly
// the tensor's len(dst) elements, in whole blocks; otherwise the error wraps ErrLength. For types
// without an expansion the error wraps errors.ErrUnsupported. Only the last block of APR_Q4 may be
// padded. Only APR_Q8 begins with a head, which src holds too.
func Expand(d layout.DType, dst []float32, src []byte) error {
	if !Supported(d) {
		return unsupported(d)
	}
	if err := checkTensor(d, len(dst), len(src)); err != nil || len(dst) == 0 {
		return err
	}
	c, err := ReadHead(d, src)
	if err != nil {
		return err
	}
	return c.Expand(dst, src[c.headBytes:], 0, 1)
}

// checkTensor returns an error that wraps ErrLength unless elems elements of type d are whole blocks, and take size bytes with
// their head. Only the last block of APR_Q4 may be padded. A tensor without elements has no head.
func checkTensor(d layout.DType, elems, size int) error {
	head, want := d.ByteRange(0, uint64(elems)) // where the first block begins, and how many bytes the blocks take
	if elems > 0 {
		want += head
	}
	switch {
	case elems%d.BlockElems() != 0 && d != layout.APR_Q4:
		return fmt.Errorf("dequant: %v: %d elements are no multiple of the block of %d: %w", d, elems, d.BlockElems(), ErrLength)
	case want != uint64(size):
		return fmt.Errorf("dequant: %v: %d elements take %d bytes, not %d: %w", d, elems, want, size, ErrLength)
	}
	return nil
}

// unsupported returns the error of a type without an expansion.
func unsupported(d layout.DType) error {
	return fmt.Errorf("dequant: %v has no expansion to float32: %w", d, errors.ErrUnsupported)
}

// expand writes the values of src, whole blocks of type d, to dst by the active kernel. The portable loop takes the last
// blocks, if they are too few for the kernel. The caller has checked that src holds exactly dst's blocks. bypassesCaches
// lets kernels store past the caches.
func expand(d layout.DType, dst []float32, src []byte, bypassesCaches bool) {
	elems, size := d.BlockElems(), d.BlockBytes()
	k := &active.expand[d]
	run := k.run
	if bypassesCaches && k.stream != nil {
		// k.stream needs an aligned dst. Plain numbers before the first aligned place are expanded portably. Blocks of an unaligned
		// dst are left to k.run.
		head := min(floatsToAligned(dst), len(dst))
		if head == 0 {
			run = k.stream
		} else if elems == 1 {
			generic.expand[d].run(dst[:head], src[:head*size])
			dst, src = dst[head:], src[head*size:]
			run = k.stream
		}
	}
	// One call takes simd.MaxCall elements at most, because assembly cannot be preempted.
	for n := simd.WholeSteps(len(dst)/elems, k.step); n > 0; {
		c := simd.WholeSteps(min(n, simd.MaxCall/elems), k.step)
		run(dst[:c*elems], src[:c*size])
		dst, src, n = dst[c*elems:], src[c*size:], n-c
	}
	if len(dst) > 0 {
		generic.expand[d].run(dst, src)
	}
}

// blockBuffers are for one expanded block of expandBlock. They are pooled because a call through a
// table lets its arguments escape.
var blockBuffers = sync.Pool{New: func() any { return new([maxBlock]float32) }}

// maxBlock is the largest number of elements in a block.
const maxBlock = 256

// expandBlock expands the first block of src. It copies the block's values, from element skip on, to dst until dst is full or
// the block ends. It returns the number of values copied.
func expandBlock(d layout.DType, dst []float32, src []byte, skip int) int {
	buf := blockBuffers.Get().(*[maxBlock]float32)
	defer blockBuffers.Put(buf)
	block := buf[:d.BlockElems()]
	const bypassesCaches = false
	expand(d, block, src[:d.BlockBytes()], bypassesCaches)
	return copy(dst, block[skip:])
}
