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
	value, err = f.decodeValue(i, b)
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
		v, err := f.decodeValue(i, b[off-k.at:][:size])
		if err != nil {
			return nil, err
		}
		md[i] = layout.Entry{Key: string(k.key(i)), Value: v}
	}
	return md, nil
}

// decodeValue returns the i-th value, whose bytes are b. It fails if a bool is neither 0 nor 1, or the bytes have changed since Decode and no
// longer fit.
func (f *File) decodeValue(i int, b []byte) (any, error) {
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
			if at := slices.IndexFunc(b[head:], isNotBool); at >= 0 {
				return nil, f.valueErrorf(i, head+uint64(at), "element %d is a bool of %d", at, b[head:][at])
			}
		}
	case TypeBool:
		if isNotBool(b[0]) {
			return nil, f.valueErrorf(i, 0, "a bool of %d", b[0])
		}
		return b[0] == 1, nil
	default:
		v := reflect.New(types[typ].goType)
		w.decode(b, v)
		return v.Elem().Interface(), nil
	}
	return nil, f.valueErrorf(i, 0, "other bytes than when the file was opened")
}

// isNotBool reports whether c is not the byte of a bool.
func isNotBool(c byte) bool { return c > 1 }

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
	if elem == TypeBool && slices.ContainsFunc(b[:size], isNotBool) {
		return nil, nil, false
	}
	values := reflect.MakeSlice(reflect.SliceOf(types[elem].goType), int(n), int(n))
	w.decode(b[:size], values)
	return values.Interface(), b[size:], true
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

// valueErrorf returns an error about the byte at offset at of the i-th value, and names its key.
func (f *File) valueErrorf(i int, at uint64, format string, args ...any) error {
	e := layout.Errorf(layout.GGUF, f.keys.kvs[i].value+at, "value", layout.ErrInvalid, format, args...)
	e.Reason = "key " + layout.Quote(f.keys.key(i)) + ": " + e.Reason
	return e
}

// decode sets v, a slice or a pointer of numbers or bools, to the values in b, which is as long as they are.
func (w width) decode(b []byte, v reflect.Value) {
	if _, err := binary.Decode(b, w.order(), v.Interface()); err != nil {
		panic(err)
	}
}

// typeByGo maps the Go types of numbers and bools to types of values.
var typeByGo = func() map[reflect.Type]Type {
	m := make(map[reflect.Type]Type)
	for t := range types {
		if g := types[t].goType; g != nil {
			m[g] = Type(t)
		}
	}
	return m
}()
