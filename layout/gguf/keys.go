package gguf

import (
	"bytes"
	"math"
	"slices"

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

// key returns the key of the i-th value.
func (k *keys) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = k.kvs[i-1].end
	}
	return k.text[start:k.kvs[i].end]
}

// typ returns the type of the i-th value.
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

// stepMetadata reads the keys and steps over their values, and notes where these are. It sets d's error if a key or a value is invalid, or
// applyKeys finds one that is.
func (d *decoder) stepMetadata() {
	if d.Err() != nil {
		return
	}
	k := &d.file.keys
	k.at, k.width = d.Offset(), d.width
	d.Peek("metadata_kv", d.kvCount*d.width.smallestKV()) // memory is taken for what is there
	if d.Err() != nil {
		return
	}
	k.kvs = make([]kv, 0, d.kvCount)
	k.names = layout.NewNames(int(d.kvCount))
	for i := range d.kvCount {
		key := d.readKey()
		typeAt := d.Offset()
		typ := Type(d.u32("value_type"))
		off := d.Offset()
		d.noteValue(key)
		d.stepValue(key, typ, typeAt)
		if d.Err() != nil {
			return
		}
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
	d.applyKeys()
}

// readKey reads a key. It sets d's error if the key is too long, empty, not UTF-8, or there twice.
func (d *decoder) readKey() []byte {
	at := d.Offset()
	n := d.count("key")
	if n > maxKey {
		d.Fail(at, "key", layout.ErrLimit, "%d bytes, more than %d", n, maxKey)
	}
	key := d.Take("key", n)
	if n == 0 {
		d.Fail(at, "key", layout.ErrInvalid, "empty")
	}
	d.CheckText(at, "key", key)
	if d.Err() != nil {
		return nil
	}
	k := &d.file.keys
	other := k.names.Enter(layout.HashNameBytes(key), len(k.kvs), func(i int) bool { return bytes.Equal(k.key(i), key) })
	if other >= 0 {
		d.Fail(at, "key", layout.ErrDuplicate, "%s is there twice, as number %d and %d", layout.Quote(key), other, len(k.kvs))
	}
	return key
}

// stepValue steps over the value of key, of type typ, which the file states at typeAt. It sets d's error if there is no such type, or the value
// leaves the file or is over a limit.
func (d *decoder) stepValue(key []byte, typ Type, typeAt uint64) {
	switch {
	case d.Err() != nil:
	case typ == TypeString:
		d.stepString(key)
	case typ == TypeArray:
		d.stepArray(key, 1)
	case typ >= numTypes:
		d.Fail(typeAt, "value_type", layout.ErrInvalid, "key %s: there is no type %d", layout.Quote(key), uint32(typ))
	default:
		d.Take("value", types[typ].size)
	}
}

// stepString steps over a string of key's value. It sets d's error if the string is too long.
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
		d.readOrSkip("value", n)
	}
}

// stepArray steps over an array of key's value, which stands in depth-1 other arrays. It sets d's error if the array has an unknown type
// or too many elements, or depth is over the limit.
func (d *decoder) stepArray(key []byte, depth uint64) {
	at := d.Offset()
	elem := Type(d.u32("value"))
	countAt := d.Offset()
	n := d.count("value")
	size := d.width.elementSize(elem)
	switch {
	case d.Err() != nil:
	case elem == TypeArray && depth >= d.file.lim.Depth:
		d.Fail(at, "value", layout.ErrLimit, "key %s: arrays in arrays, deeper than %d", layout.Quote(key), d.file.lim.Depth)
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
		d.readOrSkip("value", n*size)
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
		size, k := skipStrings(d.Buffered(), n, d.width)
		d.Skip("value", size)
		if n -= k; n > 0 {
			d.stepString(key) // which reaches into the next window
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
