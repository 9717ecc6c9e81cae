package gguf

import (
	"bytes"
	"encoding/binary"
	"iter"
	"reflect"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Get reads one value: a sized integer or float of Go, a bool, a string, or an *[Array].
// ok is false if the file does not have the key. The value is memory of its own. An error is a
// *[layout.FormatError]: the file may have changed since it was decoded.
func (f *File) Get(in layout.Input, key string) (value any, ok bool, err error) {
	i := f.keys.find(key)
	if i < 0 {
		return nil, false, nil
	}
	off, size := f.keys.value(i)
	b, err := layout.Region(in, layout.GGUF, off, "value", off, size)
	if err != nil {
		return nil, false, err
	}
	value, err = f.read(i, b)
	return value, err == nil, err
}

// Metadata reads all values as Get does, but arrays as slices of numbers, bools or strings. It
// keeps nothing for the next call. [File.Get] is for one number without all of a vocabulary.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	k := &f.keys
	if len(k.kvs) == 0 {
		return layout.Metadata{}, nil
	}
	b, err := layout.Region(in, layout.GGUF, k.at, "metadata_kv", k.at, k.end-k.at)
	if err != nil {
		return nil, err
	}
	md := make(layout.Metadata, len(k.kvs))
	for i := range k.kvs {
		off, size := k.value(i)
		v, err := f.read(i, b[off-k.at:][:size])
		if err != nil {
			return nil, err
		}
		if a, ok := v.(*Array); ok {
			v = a.Values()
		}
		md[i] = layout.Entry{Key: string(k.key(i)), Value: v}
	}
	return md, nil
}

// read makes the i-th value of its bytes. Decode has found them to be long enough, but they may
// have changed.
func (f *File) read(i int, b []byte) (any, error) {
	typ := f.keys.typ(i)
	switch typ {
	case TypeString:
		if w := f.width; w.uint(b) == uint64(len(b))-w.bytes {
			return string(b[w.bytes:]), nil
		}
		return nil, f.changed(i)
	case TypeArray:
		return f.array(i, b)
	}
	if typ == TypeBool && b[0] > 1 {
		return nil, f.valueErrorf(i, 0, "a bool of %d", b[0])
	}
	return types[typ].one(b, f.width.order()), nil
}

func (f *File) array(i int, b []byte) (any, error) {
	w := f.width
	head := 4 + w.bytes
	if Type(w.u32(b)) == TypeArray {
		list, rest, ok := w.nested(b, maxDepth)
		if !ok || len(rest) > 0 {
			return nil, f.changed(i)
		}
		return &Array{typ: TypeArray, n: len(list), width: w, inner: list}, nil
	}
	elem, n := Type(w.u32(b)), w.uint(b[4:])
	data := b[head:]
	a := &Array{typ: elem, n: int(n), width: w}
	if elem == TypeString {
		a.text = string(data) // one copy for all strings, which become parts of it
		if !a.holds(n) {
			return nil, f.changed(i)
		}
		return a, nil
	}
	if elem >= numTypes || elem == TypeArray || n != uint64(len(data))/types[elem].size || uint64(len(data))%types[elem].size != 0 {
		return nil, f.changed(i)
	}
	a.data = bytes.Clone(data)
	if elem == TypeBool {
		if at := slices.IndexFunc(a.data, func(c byte) bool { return c > 1 }); at >= 0 {
			return nil, f.valueErrorf(i, head+uint64(at), "element %d is a bool of %d", at, a.data[at])
		}
	}
	return a, nil
}

// maxDepth bounds arrays in arrays, whatever the limits of opening were.
const maxDepth = 1 << 10

// nested makes values of the array of arrays that b begins with. It reports false for what Decode would not have passed, and for a
// bool that is none.
func (w width) nested(b []byte, depth int) (list []any, rest []byte, ok bool) {
	head := int(4 + w.bytes)
	n := w.uint(b[4:])
	rest = b[head:]
	if depth == 0 || n > uint64(len(rest)/head) {
		return nil, nil, false
	}
	list = make([]any, 0, min(n, 16))
	for range n {
		if len(rest) < head {
			return nil, nil, false
		}
		var v any
		if elem := Type(w.u32(rest)); elem == TypeArray {
			v, rest, ok = w.nested(rest, depth-1)
		} else {
			v, rest, ok = w.flat(elem, w.uint(rest[4:]), rest[head:])
		}
		if !ok {
			return nil, nil, false
		}
		list = append(list, v)
	}
	return list, rest, true
}

// flat makes a slice of n elements that b begins with.
func (w width) flat(elem Type, n uint64, b []byte) (list any, rest []byte, ok bool) {
	if elem >= numTypes || n > uint64(len(b))/w.elementSize(elem) {
		return nil, nil, false
	}
	if elem == TypeString {
		size, count := skipStrings(b, n, w)
		a := &Array{typ: elem, n: int(n), width: w, text: string(b[:size])}
		return a.Values(), b[size:], count == n
	}
	size := n * types[elem].size
	if elem == TypeBool && slices.ContainsFunc(b[:size], func(c byte) bool { return c > 1 }) {
		return nil, nil, false
	}
	return types[elem].all(b[:size], int(n), w.order()), b[size:], true
}

func (f *File) changed(i int) error {
	return f.valueErrorf(i, 0, "other bytes than when the file was opened")
}

// valueErrorf returns an error about byte at of the i-th value.
func (f *File) valueErrorf(i int, at uint64, format string, args ...any) error {
	e := layout.Errorf(layout.GGUF, f.keys.kvs[i].value+at, "value", layout.ErrInvalid, format, args...)
	e.Reason = "key " + layout.Quote(f.keys.key(i)) + ": " + e.Reason
	return e
}

// Array is an array of a file's metadata, in memory of its own. Its methods make Go values of the
// elements.
type Array struct {
	typ   Type
	n     int
	width width
	text  string // of an array of strings: all of them, with their lengths
	data  []byte // of numbers and bools
	inner []any  // of arrays: what Values makes of each
}

// Len returns the number of elements.
func (a *Array) Len() int { return a.n }

// Type returns the type of the elements.
func (a *Array) Type() Type { return a.typ }

// Strings iterates over the elements of an array of strings, and over nothing for other arrays. It
// copies nothing: the strings are parts of the array's memory, and keep it alive.
func (a *Array) Strings() iter.Seq[string] {
	return func(yield func(string) bool) {
		for left := a.text; left != ""; {
			s, rest, _ := a.first(left)
			if !yield(s) {
				return
			}
			left = rest
		}
	}
}

// holds reports whether text consists of n strings.
func (a *Array) holds(n uint64) bool {
	left, ok := a.text, true
	for ; n > 0 && ok; n-- {
		_, left, ok = a.first(left)
	}
	return ok && left == ""
}

// first splits text behind its first string. It reports false if there is none.
func (a *Array) first(text string) (s, rest string, ok bool) {
	w := int(a.width.bytes)
	if len(text) < w {
		return "", "", false
	}
	n := a.width.uint([]byte(text[:w]))
	if n > uint64(len(text)-w) {
		return "", "", false
	}
	return text[w : w+int(n)], text[w+int(n):], true
}

// Values returns a slice of all elements: []uint8, []int8, … []float64, []bool or []string,
// as Type says. Of arrays it is an []any of such slices.
func (a *Array) Values() any {
	switch a.typ {
	case TypeArray:
		return a.inner
	case TypeString:
	default:
		return types[a.typ].all(a.data, a.n, a.width.order())
	}
	list := make([]string, 0, a.n)
	for s := range a.Strings() {
		list = append(list, s)
	}
	return list
}

// goType makes Go values of numbers and bools, one or as many as it is told.
type goType interface {
	one(b []byte, order binary.ByteOrder) any
	all(b []byte, n int, order binary.ByteOrder) any
}

// typeByGo maps the Go types of numbers and bools to types of values.
var typeByGo = func() map[reflect.Type]Type {
	m := make(map[reflect.Type]Type)
	for t := range types {
		if g := types[t].goType; g != nil {
			m[reflect.TypeOf(g.all(nil, 0, le)).Elem()] = Type(t)
		}
	}
	return m
}()

type goTypeOf[T any] struct{}

func (d goTypeOf[T]) one(b []byte, order binary.ByteOrder) any { return d.all(b, 1, order).([]T)[0] }

func (goTypeOf[T]) all(b []byte, n int, order binary.ByteOrder) any {
	list := make([]T, n)
	if _, err := binary.Decode(b, order, list); err != nil {
		panic(err) // b is as long as n elements
	}
	return list
}
