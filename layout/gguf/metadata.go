package gguf

import (
	"encoding/binary"
	"errors"
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
	value, err = f.readValue(in, i)
	return value, err == nil, err
}

// Metadata reads all values as Get does. It caches nothing for the next call. [File.Get] is for one number without all of a
// vocabulary.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	k := &f.keys
	if len(k.kvs) == 0 {
		return layout.Metadata{}, nil
	}
	b, err := layout.Region(in, layout.GGUF, k.at, "metadata_kv", k.at, k.end-k.at) // at once, since each read of a remote file may be a request
	if err != nil {
		return nil, err
	}
	md := make(layout.Metadata, len(k.kvs))
	for i := range md {
		v, err := f.readValue(part{b, k.at}, i)
		if err != nil {
			return nil, err
		}
		md[i] = layout.Entry{Key: string(k.key(i)), Value: v}
	}
	return md, nil
}

// part is the bytes of a file from an offset on, as an Input that reads nothing else.
type part struct {
	layout.Bytes
	at uint64
}

// Slice returns the n bytes at off of the file. It fails if they leave the part.
func (p part) Slice(off, n uint64) ([]byte, error) { return p.Bytes.Slice(off-p.at, n) }

// readValue returns the i-th value. It fails if reading does, if a bool is neither 0 nor 1, or if the bytes have changed since Decode and no
// longer fit.
func (f *File) readValue(in layout.Input, i int) (any, error) {
	off, size := f.keys.value(i)
	r := reader{layout.NewCursor(in, layout.GGUF, off, size), f.keys.width}
	r.Peek("value", size) // in one piece
	v := r.value(f.keys.typ(i), maxDepth)
	if r.Left() > 0 {
		r.failChanged(off)
	}
	if e, failed := errors.AsType[*layout.FormatError](r.Err()); failed {
		e.Reason = "key " + layout.Quote(f.keys.key(i)) + ": " + e.Reason
		return nil, e
	}
	return v, nil
}

// failChanged sets r's error: a value at an offset is no longer one that Decode would have passed.
func (r *reader) failChanged(at uint64) {
	r.Fail(at, "value", layout.ErrInvalid, "other bytes than when the file was opened")
}

// value reads a value of a type. Arrays in it nest up to depth. After an error it means nothing.
func (r *reader) value(typ Type, depth int) any {
	switch typ {
	case TypeString:
		return string(r.Take("value", r.count("value")))
	case TypeArray:
		return r.array(depth)
	}
	if list := r.numbers(typ, 1); list.IsValid() {
		return list.Index(0).Interface()
	}
	return nil
}

// numbers reads a slice of n numbers or bools of a type. It returns the zero Value, and sets r's error, if fewer are left or a bool is neither
// 0 nor 1.
func (r *reader) numbers(typ Type, n uint64) reflect.Value {
	at := r.Offset()
	b := r.Take("value", n*types[typ].size)
	if typ == TypeBool {
		if i := slices.IndexFunc(b, func(c byte) bool { return c > 1 }); i >= 0 {
			r.Fail(at+uint64(i), "value", layout.ErrInvalid, "a bool of %d", b[i])
		}
	}
	if r.Err() != nil {
		return reflect.Value{}
	}
	list := reflect.MakeSlice(reflect.SliceOf(types[typ].goType), int(n), int(n))
	if _, err := binary.Decode(b, r.width.order(), list.Interface()); err != nil {
		panic(err)
	}
	return list
}

// maxDepth bounds arrays in arrays, whatever the limits of opening were.
const maxDepth = 1 << 10

// array reads an array as a slice. Arrays in it nest up to depth. After an error it means nothing.
func (r *reader) array(depth int) any {
	at := r.Offset()
	elem, n := Type(r.u32("value")), r.count("value")
	switch {
	case depth == 0 || elem >= numTypes || !r.Fits(at, "value", n, r.width.elementSize(elem)):
		r.failChanged(at)
	case elem == TypeArray:
		list := make([]any, 0, min(n, 16)) // n may claim more arrays than there are
		for ; n > 0 && r.Err() == nil; n-- {
			list = append(list, r.array(depth-1))
		}
		return list
	case elem == TypeString:
		size, count := skipStrings(r.Buffered(), n, r.width)
		if list, ok := r.width.strings(string(r.Take("value", size)), int(count)); ok && count == n {
			return list
		}
		r.failChanged(at)
	default:
		if list := r.numbers(elem, n); list.IsValid() {
			return list.Interface()
		}
	}
	return nil
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
