package gguf

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

const (
	keyAlignment    = "general.alignment"
	keyArchitecture = "general.architecture"
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

// keyOriginal begins the keys that hold the shape of a tensor which is stored with another one, outermost dimension first.
// ComfyUI-GGUF writes them: its writer makes whole blocks of rows that are none, and has no more than four dimensions.
const keyOriginal = "comfy.gguf.orig_shape."

// noteValue notes the value of key, of type typ, which comes next, if Decode needs it and it is no longer than it should be. It reports no
// errors, because all values are stepped over too.
func (d *decoder) noteValue(key []byte, typ Type) {
	name, isOriginal := bytes.CutPrefix(key, []byte(keyOriginal))
	switch string(key) {
	case keyAlignment, keySplitNo, keySplitCount, keySplitTensors:
	default:
		if !isOriginal {
			return
		}
	}
	b := layout.Bytes(d.Peek("value", 4+d.width.bytes+8*d.file.lim.Rank)) // a shape is the longest
	r := reader{layout.NewCursor(b, layout.GGUF, 0, b.Size()), d.width, d.depth}
	value := r.value(typ, 0, true)
	switch {
	case r.Err() != nil:
	case !isOriginal:
		d.noted[string(key)] = value
	default:
		if shape := shapeOf(value, d.file.lim.Rank); shape != nil {
			d.shapes[string(name)] = shape
		}
	}
}

// shapeOf returns value as a shape of at most rank dimensions, or nil if it is none.
func shapeOf(value any, rank uint64) []int {
	switch value.(type) {
	case []int32, []uint32, []int64, []uint64:
		shape, ok := layout.As[[]int](value)
		if ok && uint64(len(shape)) <= rank && (len(shape) == 0 || slices.Min(shape) >= 0) {
			return shape
		}
	}
	return nil
}

// original returns the shape that a key gives the tensor called name, and keeps it for Audit. It is nil if there is no such key, or its
// value is no shape.
func (d *decoder) original(name []byte) []int {
	shape := d.shapes[string(name)]
	if shape != nil {
		d.file.originals[string(name)] = shape
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

// noted returns the value of a key that Decode needs, and the offset of the value in the file. It reports false if there is no such key. If
// the value is of another type, it also sets d's error.
func noted[T uint16 | uint32 | int32](d *decoder, key string) (value T, at uint64, ok bool) {
	k := &d.file.keys
	i := k.find(key)
	if i < 0 || d.Err() != nil {
		return 0, 0, false
	}
	at, _ = k.value(i)
	if value, ok = d.noted[key].(T); !ok {
		d.Fail(at-4, key, layout.ErrInvalid, "of type %v, not %T", k.typ(i), value)
	}
	return value, at, ok
}

// applyKeys sets the alignment and the split of d from the file's keys. It sets d's error if the alignment is no power of two, or the keys of
// a split are missing or contradict each other.
func (d *decoder) applyKeys() {
	if align, at, ok := noted[uint32](d, keyAlignment); ok {
		d.align = uint64(align)
		if align == 0 || align&(align-1) != 0 {
			d.Fail(at, keyAlignment, layout.ErrInvalid, "%d is no power of two", align)
		}
	}
	no, noAt, hasNo := noted[uint16](d, keySplitNo)
	count, countAt, _ := noted[uint16](d, keySplitCount)
	tensors, tensorsAt, hasTensors := noted[int32](d, keySplitTensors)
	switch {
	case count < 2:
		return // one file, whatever else it says
	case !hasNo:
		d.Fail(countAt, keySplitNo, layout.ErrInvalid, "missing, though %s is %d", keySplitCount, count)
	case !hasTensors:
		d.Fail(countAt, keySplitTensors, layout.ErrInvalid, "missing, though %s is %d", keySplitCount, count)
	case no >= count:
		d.Fail(noAt, keySplitNo, layout.ErrInvalid, "%d, though there are %d files", no, count)
	case tensors < 0 || uint64(tensors) < d.tensorCount:
		d.Fail(tensorsAt, keySplitTensors, layout.ErrInvalid, "%d, though this file alone has %d", tensors, d.tensorCount)
	}
	d.file.split = split{no, count, tensors}
}

// split says which shard of a model a file is.
type split struct {
	no, count uint16
	tensors   int32
}

// Split reports which shard of a split model the file is: split.no, which counts from 0, of
// split.count. tensors is split.tensors.count, the number of tensors in all shards. ok is false if
// the model is not split.
func (f *File) Split() (no, count uint16, tensors int32, ok bool) {
	return f.split.no, f.split.count, f.split.tensors, f.split.count > 0
}
