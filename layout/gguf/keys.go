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

// stepMetadata reads the keys and steps over their values, and notes where the values are. It sets d's error if a key or a value is invalid, or
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
		if d.Err() != nil {
			return
		}
		d.noteValue(key, typ)
		if d.value(typ, typeAt, false); d.errorOf(key) != nil {
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
