package gguf

import (
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

// specialKeys are those of the values in special.
var specialKeys = []string{keyAlignment, keySplitNo, keySplitCount, keySplitTensors}

// special holds the values that opening needs to know: the alignment, and the parts of a split.
type special struct {
	alignment, no, count, tensors noted
}

// noted is an integer that the file states at off, if it is there.
type noted struct {
	value uint64
	off   uint64
	there bool
}

// note keeps the value of key if special has a place for it.
func (s *special) note(d *decoder, key []byte, typ Type, b []byte, off uint64) {
	switch string(key) {
	case keyAlignment:
		s.alignment.set(d, keyAlignment, TypeUint32, typ, b, off)
	case keySplitNo:
		s.no.set(d, keySplitNo, TypeUint16, typ, b, off)
	case keySplitCount:
		s.count.set(d, keySplitCount, TypeUint16, typ, b, off)
	case keySplitTensors:
		s.tensors.set(d, keySplitTensors, TypeInt32, typ, b, off)
	}
}

func (n *noted) set(d *decoder, key string, want, typ Type, b []byte, off uint64) {
	if typ != want {
		d.Fail(off-4, key, layout.ErrInvalid, "of type %v, not %v", typ, want)
		return
	}
	*n = noted{off: off, there: true}
	if d.file.width.big {
		b = slices.Clone(b)
		slices.Reverse(b)
	}
	for i, c := range b {
		n.value |= uint64(c) << (8 * i)
	}
}

// apply checks the values and gives them to d.
func (s *special) apply(d *decoder) {
	if a := s.alignment; a.there {
		d.align = a.value
		if a.value < leastAlign || a.value > mostAlign || a.value&(a.value-1) != 0 {
			d.Fail(a.off, keyAlignment, layout.ErrInvalid, "%d is no power of two from %d to %d", a.value, leastAlign, mostAlign)
		}
	}
	if !s.count.there || s.count.value < 2 {
		return // one file, whatever else it says
	}
	switch {
	case !s.no.there:
		d.Fail(s.count.off, keySplitNo, layout.ErrInvalid, "missing, though %s is %d", keySplitCount, s.count.value)
	case !s.tensors.there:
		d.Fail(s.count.off, keySplitTensors, layout.ErrInvalid, "missing, though %s is %d", keySplitCount, s.count.value)
	case s.no.value >= s.count.value:
		d.Fail(s.no.off, keySplitNo, layout.ErrInvalid, "%d, though there are %d files", s.no.value, s.count.value)
	case int32(s.tensors.value) < 0 || uint64(int32(s.tensors.value)) < d.tensorCount:
		d.Fail(s.tensors.off, keySplitTensors, layout.ErrInvalid, "%d, though this file alone has %d", int32(s.tensors.value), d.tensorCount)
	}
	d.file.split = split{uint16(s.no.value), uint16(s.count.value), int32(s.tensors.value)}
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
