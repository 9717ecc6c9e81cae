package gguf

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// keyOriginal begins the keys that hold the shape of a tensor which is stored with another one, outermost dimension first.
// ComfyUI-GGUF writes them: its writer makes whole blocks of rows that are none, and has no more than four dimensions.
const keyOriginal = "comfy.gguf.orig_shape."

// originalShape returns the shape that a key gives the tensor called name. It is nil if there is no such key, or its value is no shape.
func (f *File) originalShape(in layout.Input, name []byte) []int {
	if !f.hasOriginals {
		return nil
	}
	key := keyOriginal + string(name)
	i := f.keys.find(key)
	if i < 0 {
		return nil
	}
	if _, size := f.keys.value(i); size > f.shapeBytes() { // more dimensions than a shape may have
		return nil
	}
	v, _, _ := f.Get(in, key)
	switch v.(type) {
	case []int32, []uint32, []int64, []uint64:
		shape, ok := layout.As[[]int](v)
		if ok && uint64(len(shape)) <= f.lim.Rank && (len(shape) == 0 || slices.Min(shape) >= 0) {
			return shape
		}
	}
	return nil
}

// shapeBytes returns the most bytes that a value takes which is a shape.
func (f *File) shapeBytes() uint64 { return 4 + f.keys.width.bytes + 8*f.lim.Rank }

// fits reports whether t may have a shape: as many elements, in whole blocks.
func fits(shape []int, t *layout.Tensor) bool {
	stored, ok := layout.Elements(t.Shape)
	n, sized := layout.Elements(shape)
	_, err := t.DType.Size(shape)
	return ok && sized && n == stored && err == nil
}
