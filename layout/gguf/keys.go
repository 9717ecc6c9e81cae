package gguf

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// keys holds the keys of a file, and where their values are.
type keys struct {
	at, end uint64 // of keys and values in the file
	width   width
	text    []byte // all keys, one after another
	kvs     []kv
	names   *layout.Names
}

type kv struct {
	value uint64 // its offset in the file
	end   uint32 // of the key in text; the next begins there
	typ   uint8
}

// key returns the i-th key.
func (k *keys) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = k.kvs[i-1].end
	}
	return k.text[start:k.kvs[i].end]
}

func (k *keys) typ(i int) Type { return Type(k.kvs[i].typ) }

// value returns the offset and the size of the i-th value. It ends where the next key's length
// stands.
func (k *keys) value(i int) (off, size uint64) {
	off, end := k.kvs[i].value, k.end
	if next := i + 1; next < len(k.kvs) {
		end = k.kvs[next].value - k.width.bytes - uint64(len(k.key(next))) - 4
	}
	return off, end - off
}

// find returns the position of a key, or -1.
func (k *keys) find(key string) int {
	return k.names.Find(layout.HashName(key), func(i int) bool { return string(k.key(i)) == key })
}

// metadata walks over keys and values.
func (d *decoder) metadata() {
	if d.Err() != nil {
		return
	}
	k := &d.file.keys
	k.at, k.width = d.Offset(), d.file.width
	d.Peek("metadata_kv", d.kvCount*d.file.width.smallestKV()) // memory is taken for what is there
	if d.Err() != nil {
		return
	}
	k.kvs = make([]kv, 0, d.kvCount)
	k.names = layout.NewNames(int(d.kvCount))
	special := make(special)
	for i := range d.kvCount {
		key := d.key()
		typeAt := d.Offset()
		typ := Type(d.u32("value_type"))
		off := d.Offset()
		d.noteOriginal(key, typ)
		value := d.value(key, typ, typeAt)
		if d.Err() != nil {
			return
		}
		special.note(d, key, typ, value, off)
		if uint64(len(k.text)+len(key)) > math.MaxUint32 {
			d.Fail(typeAt, "key", layout.ErrLimit, "keys of more than 4 GiB")
		}
		if need := uint64(len(k.text) + len(key)); need > uint64(cap(k.text)) {
			// Capacity for the keys to come if they are as long, so that memory is not copied many times.
			k.text = slices.Grow(k.text, len(key)+int(min(need/(i+1)*(d.kvCount-i), d.Left())))
		}
		k.text = append(k.text, key...)
		k.kvs = append(k.kvs, kv{off, uint32(len(k.text)), uint8(typ)})
	}
	k.end = d.Offset()
	special.apply(d)
}

// key reads a key.
func (d *decoder) key() []byte {
	at := d.Offset()
	n := d.count("key")
	if n > maxKey {
		d.Fail(at, "key", layout.ErrLimit, "%d bytes, more than %d", n, maxKey)
	}
	key := d.Take("key", n)
	switch {
	case d.Err() != nil:
	case n == 0:
		d.Fail(at, "key", layout.ErrInvalid, "empty")
	case !utf8.Valid(key):
		d.Fail(at, "key", layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(key))
	case bytes.IndexByte(key, 0) >= 0:
		d.Fail(at, "key", layout.ErrInvalid, "%s holds a NUL byte", layout.Quote(key))
	default:
		k := &d.file.keys
		other := k.names.Enter(layout.HashNameBytes(key), len(k.kvs), func(i int) bool { return bytes.Equal(k.key(i), key) })
		if other >= 0 {
			d.Fail(at, "key", layout.ErrDuplicate, "%s is there twice, as number %d and %d", layout.Quote(key), other, len(k.kvs))
		}
	}
	return key
}

// value steps over a value of type typ, which the file states at typeAt. It returns a number or
// a bool, and nil for other values.
func (d *decoder) value(key []byte, typ Type, typeAt uint64) []byte {
	switch {
	case d.Err() != nil:
	case typ == TypeString:
		d.stepString(key)
	case typ == TypeArray:
		d.stepArray(key, 1)
	case typ >= numTypes:
		d.Fail(typeAt, "value_type", layout.ErrInvalid, "key %s: there is no type %d", layout.Quote(key), uint32(typ))
	default:
		return d.Take("value", types[typ].size)
	}
	return nil
}

// stepString steps over a string.
func (d *decoder) stepString(key []byte) {
	at := d.Offset()
	n := d.count("value")
	switch {
	case d.Err() != nil:
	case n > d.Left():
		d.Fail(at, "value", layout.ErrTruncated, "key %s: a string of %d bytes, but only %d are left", layout.Quote(key), n, d.Left())
	case n > maxString:
		d.Fail(at, "value", layout.ErrLimit, "key %s: a string of %d bytes, more than %d", layout.Quote(key), n, maxString)
	default:
		d.step("value", n)
	}
}

// stepArray steps over an array, at some depth of nesting.
func (d *decoder) stepArray(key []byte, depth uint64) {
	at := d.Offset()
	elem := Type(d.u32("value"))
	countAt := d.Offset()
	n := d.count("value")
	size := d.file.width.elementSize(elem)
	switch {
	case d.Err() != nil:
	case elem == TypeArray && depth >= d.lim.Depth:
		d.Fail(at, "value", layout.ErrLimit, "key %s: arrays in arrays, deeper than %d", layout.Quote(key), d.lim.Depth)
	case elem >= numTypes:
		d.Fail(at, "value", layout.ErrInvalid, "key %s: an array of type %d, which there is not", layout.Quote(key), uint32(elem))
	case n > d.Left()/size:
		d.Fail(countAt, "value", layout.ErrTruncated, "key %s: %d elements of at least %d bytes do not fit the %d bytes left",
			layout.Quote(key), n, size, d.Left())
	case n > maxArray:
		d.Fail(countAt, "value", layout.ErrLimit, "key %s: %d elements, more than %d", layout.Quote(key), n, maxArray)
	case elem == TypeString:
		d.stepStrings(key, n)
	case elem == TypeArray:
		for ; n > 0 && d.Err() == nil; n-- {
			d.stepArray(key, depth+1)
		}
	default:
		d.step("value", n*size)
	}
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

// stepStrings steps over n strings, as many at a time as the cursor has buffered.
func (d *decoder) stepStrings(key []byte, n uint64) {
	for n > 0 && d.Err() == nil {
		size, k := skipStrings(d.Buffered(), n, d.file.width)
		d.Skip("value", size)
		if n -= k; n > 0 {
			d.stepString(key) // which reaches into the next window
			n--
		}
	}
}

// skipStrings steps over up to n strings, each with its length before it, as far as b holds them
// whole. It returns their size in b and their number.
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
