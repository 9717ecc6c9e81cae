package gguf

import (
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Get reads one value: a sized integer or float of Go, a bool or a string. An array is a slice of one such type, or an []any
// of slices. ok is false if the file does not have the key. The value is memory of its own. An error is a *[layout.FormatError]:
// the file may have changed since it was decoded, or a bool is neither 0 nor 1.
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

// Metadata reads all values as Get does. It caches nothing for the next call. [File.Get] is for one number without all of a
// vocabulary.
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
		md[i] = layout.Entry{Key: string(k.key(i)), Value: v}
	}
	return md, nil
}

// read returns the i-th value, whose bytes are b. Decode has found b to be long enough, but the bytes may have changed.
func (f *File) read(i int, b []byte) (any, error) {
	w := f.width
	switch typ := f.keys.typ(i); typ {
	case TypeString:
		if w.uint(b) == uint64(len(b))-w.bytes {
			return string(b[w.bytes:]), nil
		}
	case TypeArray:
		v, rest, ok := w.array(b, maxDepth)
		if ok && len(rest) == 0 {
			return v, nil
		}
		if head := 4 + w.bytes; Type(w.u32(b)) == TypeBool && w.uint(b[4:]) == uint64(len(b))-head {
			if at := slices.IndexFunc(b[head:], notBool); at >= 0 {
				return nil, f.valueErrorf(i, head+uint64(at), "element %d is a bool of %d", at, b[head:][at])
			}
		}
	case TypeBool:
		if notBool(b[0]) {
			return nil, f.valueErrorf(i, 0, "a bool of %d", b[0])
		}
		return b[0] == 1, nil
	default:
		return types[typ].one(b, w.order()), nil
	}
	return nil, f.valueErrorf(i, 0, "other bytes than when the file was opened")
}

// notBool reports whether c is not the byte of a bool.
func notBool(c byte) bool { return c > 1 }

// maxDepth bounds arrays in arrays, whatever the limits of opening were.
const maxDepth = 1 << 10

// array returns a slice of the array that b begins with, and the bytes behind it. Arrays in it nest up to depth. It reports false for
// bytes that Decode would not have passed, and for a bool that is neither 0 nor 1.
func (w width) array(b []byte, depth int) (list any, rest []byte, ok bool) {
	head := int(4 + w.bytes)
	if depth == 0 || len(b) < head {
		return nil, nil, false
	}
	elem, n := Type(w.u32(b)), w.uint(b[4:])
	b = b[head:]
	if elem >= numTypes || n > uint64(len(b))/w.elementSize(elem) {
		return nil, nil, false
	}
	switch elem {
	case TypeArray:
		list := make([]any, 0, min(n, 16)) // n may claim more arrays than there are
		for range n {
			var v any
			if v, b, ok = w.array(b, depth-1); !ok {
				return nil, nil, false
			}
			list = append(list, v)
		}
		return list, b, true
	case TypeString:
		size, count := skipStrings(b, n, w)
		list, ok := w.strings(string(b[:size]), int(count))
		return list, b[size:], ok && count == n
	}
	size := n * types[elem].size
	if elem == TypeBool && slices.ContainsFunc(b[:size], notBool) {
		return nil, nil, false
	}
	return types[elem].all(b[:size], int(n), w.order()), b[size:], true
}

// strings returns the n strings of text, each behind its length. They are substrings of text, a copy of bytes that may have
// changed since they were measured. It reports false if the lengths leave the text.
func (w width) strings(text string, n int) (list []string, ok bool) {
	list = make([]string, n)
	for i := range list {
		if uint64(len(text)) < w.bytes {
			return nil, false
		}
		size := w.uint([]byte(text[:w.bytes]))
		if text = text[w.bytes:]; size > uint64(len(text)) {
			return nil, false
		}
		list[i], text = text[:size], text[size:]
	}
	return list, true
}

// valueErrorf returns an error about byte at of the i-th value.
func (f *File) valueErrorf(i int, at uint64, format string, args ...any) error {
	e := layout.Errorf(layout.GGUF, f.keys.kvs[i].value+at, "value", layout.ErrInvalid, format, args...)
	e.Reason = "key " + layout.Quote(f.keys.key(i)) + ": " + e.Reason
	return e
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

// all returns the n values in b as a []T.
func (goTypeOf[T]) all(b []byte, n int, order binary.ByteOrder) any {
	list := make([]T, n)
	if _, err := binary.Decode(b, order, list); err != nil {
		panic(err) // b is as long as n elements
	}
	return list
}
