package gguf

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// keyOriginal begins the keys that hold the shape of a tensor which is stored with another one, outermost dimension first.
// ComfyUI-GGUF writes them: its writer makes whole blocks of rows that are none, and has no more than four dimensions.
const keyOriginal = "comfy.gguf.orig_shape."

// noteOriginal notes value, of a key that begins with keyOriginal, as the shape of the tensor called name, unless it is no shape.
func (f *File) noteOriginal(name string, value any) {
	switch value.(type) {
	case []int32, []uint32, []int64, []uint64:
		shape, ok := layout.As[[]int](value)
		if ok && uint64(len(shape)) <= f.lim.Rank && (len(shape) == 0 || slices.Min(shape) >= 0) {
			if f.originals == nil {
				f.originals = make(map[string][]int)
			}
			f.originals[name] = shape
		}
	}
}

// fits reports whether t may have a shape: as many elements, in whole blocks.
func fits(shape []int, t *layout.Tensor) bool {
	stored, ok := layout.Elements(t.Shape)
	n, sized := layout.Elements(shape)
	_, err := t.DType.Size(shape)
	return ok && sized && n == stored && err == nil
}
