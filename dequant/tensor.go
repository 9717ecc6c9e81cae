package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// aprender's types describe whole tensors, so that not every part of one is a tensor too:
// the last block of APR_Q4 may be filled up, and APR_Q8 has one scale, before all elements.

func wholeTensors(d layout.DType) bool { return d == layout.APR_Q4 || d.HeadBytes() > 0 }

// tensorBytes is the size of a tensor of n elements of such a type.
func tensorBytes(d layout.DType, n int) uint64 {
	head, size := d.Span(0, uint64(n))
	if n == 0 {
		return 0
	}
	return head + size
}

// ReadHead is what the bytes before the elements of a tensor of type d say, HeadBytes of
// them: the type of the elements that follow, and how these become real numbers. APR_Q8's
// are int8s with one scale. For types without a head the elements are of type d.
func ReadHead(d layout.DType, head []byte) (elems layout.DType, q layout.Quant) {
	if d.HeadBytes() == 0 {
		return d, layout.Quant{}
	}
	return layout.I8, layout.Quant{Scale: math.Float32frombits(binary.LittleEndian.Uint32(head))}
}

// mode chooses between the functions that end in Parallel and those that do not.
type mode bool

const (
	oneCore  mode = false
	allCores mode = true
)

// expandTensor expands a whole tensor whose length is not one of whole blocks alone.
func expandTensor(d layout.DType, dst []float32, src []byte, m mode) error {
	if !wholeTensors(d) || tensorBytes(d, len(dst)) != uint64(len(src)) {
		return mismatch(d, len(dst), len(src))
	}
	if d.HeadBytes() > 0 {
		return expandHeaded(d, dst, src, m)
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	blocks := len(dst) / elems
	expandBlocks := Expand
	if m == allCores {
		expandBlocks = ExpandParallel
	}
	err := expandBlocks(d, dst[:blocks*elems], src[:blocks*size])
	expandPart(d, dst[blocks*elems:], src[blocks*size:], 0)
	return err
}

func expandHeaded(d layout.DType, dst []float32, src []byte, m mode) error {
	if len(dst) == 0 {
		return nil // which has no head either
	}
	head := d.HeadBytes()
	elems, q := ReadHead(d, src[:head])
	if m == allCores {
		return ExpandScaledParallel(elems, dst, src[head:], q.Scale, q.Zero)
	}
	return ExpandScaled(elems, dst, src[head:], q.Scale, q.Zero)
}

// expandHeadedRange is ExpandRange for a tensor with a head.
func expandHeadedRange(d layout.DType, dst []float32, src []byte, first int) error {
	head := min(d.HeadBytes(), len(src))
	elems, size := src[head:], d.BlockBytes()
	if err := checkRange(d, len(dst), len(elems), first); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	t, q := ReadHead(d, src[:head])
	return ExpandScaled(t, dst, elems[first*size:(first+len(dst))*size], q.Scale, q.Zero)
}
