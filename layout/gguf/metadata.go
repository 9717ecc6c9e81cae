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
	off, size := f.keys.value(i)
	r := f.reader(in, "value", off, size)
	value, err = f.readValue(&r, i)
	return value, err == nil, err
}

// Metadata reads all values as Get does. It caches nothing for the next call. [File.Get] is for one number without all of a
// vocabulary.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	k := &f.keys
	r := f.reader(in, "metadata_kv", k.at, k.end-k.at)
	if r.Err() != nil { // about no key
		return nil, r.Err()
	}
	md := make(layout.Metadata, len(k.kvs))
	for i := range md {
		v, err := f.readValue(&r, i)
		if err != nil {
			return nil, err
		}
		md[i] = layout.Entry{Key: string(k.key(i)), Value: v}
	}
	return md, nil
}

// reader returns a reader of the size bytes at off. It reads them at once, since each read of a remote file may be a request. field is for
// the error if that fails.
func (f *File) reader(in layout.Input, field string, off, size uint64) reader {
	r := reader{layout.NewCursor(in, layout.GGUF, off, size), f.keys.width, f.lim.Depth}
	r.Peek(field, size)
	return r
}

// readValue returns the i-th value, which comes next in r or behind that. It fails if reading does, if a bool is neither 0 nor 1, or if the
// bytes have changed since Decode and no longer fit.
func (f *File) readValue(r *reader, i int) (any, error) {
	off, size := f.keys.value(i)
	r.Skip("key", off-r.Offset())
	v := r.value(f.keys.typ(i), off, true)
	if r.Offset() != off+size {
		r.failChanged(off)
	}
	if err := r.errorOf(f.keys.key(i)); err != nil {
		return nil, err
	}
	return v, nil
}

// reader reads the fields of a file one after the other. A value that it does not keep it only steps over.
type reader struct {
	layout.Cursor
	width width
	depth uint64 // how deep arrays may nest
}

// u32 reads a number in the byte order of the file.
func (r *reader) u32(field string) uint32 { return r.width.u32(r.Number(field, 4)) }

// count reads a count or a length.
func (r *reader) count(field string) uint64 { return r.width.uint(r.Number(field, r.width.bytes)) }

// errorOf returns r's error, which is about the value of key, or nil.
func (r *reader) errorOf(key []byte) error {
	e, failed := errors.AsType[*layout.FormatError](r.Err())
	if !failed {
		return nil
	}
	e.Reason = "key " + layout.Quote(key) + ": " + e.Reason
	return e
}

// failChanged sets r's error: a value at an offset is no longer one that Decode would have passed.
func (r *reader) failChanged(at uint64) {
	r.Fail(at, "value", layout.ErrInvalid, "other bytes than when the file was opened")
}

// value reads a value of a type, which the file states at typeAt. It sets r's error if there is no such type, or the value leaves the file
// or is over a limit. After an error the result means nothing.
func (r *reader) value(typ Type, typeAt uint64, keep bool) any {
	switch {
	case typ == TypeString:
		return r.text(keep)
	case typ == TypeArray:
		return r.array(1, keep)
	case typ >= numTypes:
		r.Fail(typeAt, "value_type", layout.ErrInvalid, "there is no type %d", uint32(typ))
	case !keep:
		r.Take("value", types[typ].size)
	default:
		if list := r.numbers(typ, 1); list.IsValid() {
			return list.Index(0).Interface()
		}
	}
	return nil
}

// text reads a string. It sets r's error if the string is too long.
func (r *reader) text(keep bool) string {
	at := r.Offset()
	n := r.count("value")
	switch {
	case r.Err() != nil:
	case n > r.Left():
		r.Fail(at, "value", layout.ErrTruncated, "a string of %d bytes, but only %d are left", n, r.Left())
	case n > maxString:
		r.Fail(at, "value", layout.ErrLimit, "a string of %d bytes, more than %d", n, maxString)
	case keep:
		return string(r.Take("value", n))
	default:
		r.step(n)
	}
	return ""
}

// array reads an array, which stands in depth-1 others, as a slice. It sets r's error if the array has an unknown type or too many elements,
// or depth is over the limit.
func (r *reader) array(depth uint64, keep bool) any {
	at := r.Offset()
	elem := Type(r.u32("value"))
	countAt := r.Offset()
	n := r.count("value")
	size := r.width.elementSize(elem)
	switch {
	case r.Err() != nil:
	case elem == TypeArray && depth >= r.depth:
		r.Fail(at, "value", layout.ErrLimit, "arrays in arrays, deeper than %d", r.depth)
	case elem >= numTypes:
		r.Fail(at, "value", layout.ErrInvalid, "an array of type %d, which there is not", uint32(elem))
	case !r.Fits(countAt, "value", n, size):
	case n > maxArray:
		r.Fail(countAt, "value", layout.ErrLimit, "%d elements, more than %d", n, maxArray)
	case elem == TypeArray:
		var list []any
		if keep {
			list = []any{} // never nil
		}
		for ; n > 0 && r.Err() == nil; n-- {
			if v := r.array(depth+1, keep); keep {
				list = append(list, v)
			}
		}
		return list
	case elem == TypeString && keep:
		size, count := skipStrings(r.Buffered(), n, r.width)
		if list, ok := r.width.strings(string(r.Take("value", size)), int(count)); ok && count == n {
			return list
		}
		r.failChanged(at)
	case elem == TypeString:
		r.stepStrings(n)
	case !keep:
		r.step(n * size)
	default:
		if list := r.numbers(elem, n); list.IsValid() {
			return list.Interface()
		}
	}
	return nil
}

// elementSize returns the fewest bytes that an element of an array takes.
func (w width) elementSize(t Type) uint64 {
	switch {
	case t == TypeArray:
		return 4 + w.bytes // its type and its length
	case t >= numTypes || types[t].size == 0:
		return w.bytes // a string's length
	}
	return types[t].size
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

// step steps over n bytes of a value. It reads up to 64 KiB, so that the windows of the cursor go on growing. It skips more, so that the long
// arrays of a remote file are not fetched.
func (r *reader) step(n uint64) {
	const maxRead = 64 << 10
	if n <= maxRead {
		r.Take("value", n)
	} else {
		r.Skip("value", n)
	}
}

// stepStrings steps over n strings, as many at a time as the cursor has buffered.
func (r *reader) stepStrings(n uint64) {
	for n > 0 && r.Err() == nil {
		size, k := skipStrings(r.Buffered(), n, r.width)
		r.Skip("value", size)
		if n -= k; n > 0 {
			r.text(false) // which reaches into the next window
			n--
		}
	}
}

// skipStrings counts up to n strings at the start of b, each with its length before it. It stops at one that b does not hold whole. It
// returns how many bytes they take, and their number.
func skipStrings(b []byte, n uint64, w width) (size, count uint64) {
	end := uint64(len(b))
	for count < n && end-size >= w.bytes {
		s := w.uintAt(b, size)
		if s > end-size-w.bytes {
			break
		}
		size += w.bytes + s
		count++
	}
	return size, count
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
