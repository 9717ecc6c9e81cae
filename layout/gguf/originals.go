package gguf

import (
	"bytes"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// keyOriginal begins the keys that hold the shape of a tensor which is stored with another one, outermost dimension first.
// ComfyUI-GGUF writes them: its writer makes whole blocks of rows that are none, and has no more than four dimensions.
const keyOriginal = "comfy.gguf.orig_shape."

// originals are the shapes that keys give tensors.
type originals struct {
	list []original
	dims []int // of all
}

type original struct {
	kv       int // of the key
	from, to int // in dims
}

// noteOriginal notes the shape in the array that comes next, without reading past it, if key names the shape of a tensor. It notes nothing
// if the array is no valid shape.
func (d *decoder) noteOriginal(key []byte, typ Type) {
	w, all := d.file.width, &d.file.originals
	if d.Err() != nil || typ != TypeArray || !bytes.HasPrefix(key, []byte(keyOriginal)) {
		return
	}
	head := 4 + w.bytes
	b := d.Peek("value", head+8*d.lim.Rank)
	if uint64(len(b)) < head {
		return
	}
	elem, n := Type(w.u32(b)), w.uint(b[4:])
	if elem != TypeInt32 && elem != TypeUint32 && elem != TypeInt64 && elem != TypeUint64 {
		return
	}
	size := types[elem].size
	if b = b[head:]; n > d.lim.Rank || n*size > uint64(len(b)) {
		return
	}
	o := original{len(d.file.keys.kvs), len(all.dims), len(all.dims) + int(n)}
	for i := range n {
		dim := (width{size, w.big}).uint(b[i*size:])
		if size == 4 && dim > math.MaxInt32 || dim > math.MaxInt {
			all.dims = all.dims[:o.from]
			return
		}
		all.dims = append(all.dims, int(dim))
	}
	all.list = append(all.list, o)
}

// shapeOf returns the shape that a key gives the tensor called name, or nil.
func (o *originals) shapeOf(k *keys, name []byte) []int {
	if len(o.list) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(o.list, k.find(keyOriginal+string(name)), func(o original, kv int) int { return o.kv - kv })
	if !ok {
		return nil
	}
	return o.dims[o.list[i].from:o.list[i].to]
}

// fittingShape returns the shape that a key gives t, if t has as many elements and its blocks fill rows of that shape. Else it is nil.
func (o *originals) fittingShape(k *keys, t *layout.Tensor) []int {
	shape := o.shapeOf(k, t.Name)
	if shape == nil || !fits(shape, t) {
		return nil
	}
	return shape
}

// fits reports whether t may have a shape: as many elements, in whole blocks.
func fits(shape []int, t *layout.Tensor) bool {
	stored, ok := layout.Elements(t.Shape)
	n, sized := layout.Elements(shape)
	_, err := t.DType.Size(shape)
	return ok && sized && n == stored && err == nil
}
