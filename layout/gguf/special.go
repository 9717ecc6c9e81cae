package gguf

import "github.com/tensormap/tensormap/layout"

const (
	keyAlignment    = "general.alignment"
	keyArchitecture = "general.architecture"
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

// specialKeys are those of the values that opening needs to know, with their types: the alignment, and the parts of a split.
var specialKeys = map[string]Type{
	keyAlignment: TypeUint32, keySplitNo: TypeUint16, keySplitCount: TypeUint16, keySplitTensors: TypeInt32,
}

// special holds the values of specialKeys that the file states.
type special map[string]noted

// noted is the integer value of a key, and the offset of its bytes in the file.
type noted struct{ value, off uint64 }

// note adds the value of key to s, if key is one of specialKeys. b are the bytes of the value, at offset off. It sets d's error if the
// value is of another type than specialKeys wants.
func (s special) note(d *decoder, key []byte, typ Type, b []byte, off uint64) {
	order := d.file.width.order()
	switch want, ok := specialKeys[string(key)]; {
	case !ok:
	case typ != want:
		d.Fail(off-4, string(key), layout.ErrInvalid, "of type %v, not %v", typ, want)
	case len(b) == 2:
		s[string(key)] = noted{uint64(order.Uint16(b)), off}
	default:
		s[string(key)] = noted{uint64(order.Uint32(b)), off}
	}
}

// apply sets the alignment and the split of d. It sets d's error if the alignment is no power of two, or the keys of a split are missing
// or contradict each other.
func (s special) apply(d *decoder) {
	if a, ok := s[keyAlignment]; ok {
		d.align = a.value
		if a.value == 0 || a.value&(a.value-1) != 0 {
			d.Fail(a.off, keyAlignment, layout.ErrInvalid, "%d is no power of two", a.value)
		}
	}
	count := s[keySplitCount]
	if count.value < 2 {
		return // one file, whatever else it says
	}
	for _, key := range []string{keySplitNo, keySplitTensors} {
		if _, ok := s[key]; !ok {
			d.Fail(count.off, key, layout.ErrInvalid, "missing, though %s is %d", keySplitCount, count.value)
		}
	}
	no, tensors := s[keySplitNo], s[keySplitTensors]
	if no.value >= count.value {
		d.Fail(no.off, keySplitNo, layout.ErrInvalid, "%d, though there are %d files", no.value, count.value)
	}
	if n := int32(tensors.value); n < 0 || uint64(n) < d.tensorCount {
		d.Fail(tensors.off, keySplitTensors, layout.ErrInvalid, "%d, though this file alone has %d", n, d.tensorCount)
	}
	d.file.split = split{uint16(no.value), uint16(count.value), int32(tensors.value)}
}

// split says which part of a model a file is.
type split struct {
	no, count uint16
	tensors   int32
}

// Split reports which part of a split model the file is: split.no, which counts from 0, of
// split.count. tensors is split.tensors.count, the number of tensors in all parts. ok is false if
// the model is not split.
func (f *File) Split() (no, count uint16, tensors int32, ok bool) {
	return f.split.no, f.split.count, f.split.tensors, f.split.count > 0
}
