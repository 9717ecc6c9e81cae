package layout

import (
	"hash/maphash"
	"math/bits"
)

// Names finds records by name: tensors, keys of metadata, nodes of a graph. It is an
// open-addressing hash table that stores no names. A slot holds an index and some bits of the
// hash. The owner of the records compares names, be they strings, bytes or offsets in a file.
//
//	i := names.Find(HashName(name), func(i int) bool { return records[i].name == name })
//
// The hash is seeded anew in every process: a file cannot choose names that collide.
type Names struct {
	// A slot has an index plus one in its low bits, and bits of the hash in the others. 0 is empty.
	slots []uint32
	mask  uint64
	index uint32 // the bits of a slot that are the index
}

var nameSeed = maphash.MakeSeed()

// HashName returns the hash by which Names finds name.
func HashName(name string) uint64 { return maphash.String(nameSeed, name) }

// HashNameBytes returns the hash of string(name) without making one.
func HashNameBytes(name []byte) uint64 { return maphash.Bytes(nameSeed, name) }

// NewNames makes a table for up to n records, whose indexes are below n. It gets at most half
// full. At 4 bytes a slot, a record takes 8 to 16 bytes.
func NewNames(n int) *Names {
	size := 4
	for size < 2*n {
		size *= 2
	}
	return &Names{slots: make([]uint32, size), mask: uint64(size - 1), index: 1<<bits.Len32(uint32(n)) - 1}
}

// Find returns the record with a hash for which isNamed is true: it has the name searched for. It returns -1 if there is none.
func (n *Names) Find(hash uint64, isNamed func(i int) bool) int {
	i, _ := n.search(hash, isNamed)
	return i
}

// Enter enters record i with a hash and returns -1. If another has the name already, as Find finds it, Enter returns that. The
// caller enters no more records than it asked NewNames for.
func (n *Names) Enter(hash uint64, i int, isNamed func(i int) bool) (other int) {
	other, slot := n.search(hash, isNamed)
	if other < 0 {
		n.slots[slot] = n.tag(hash) | uint32(i+1)
	}
	return other
}

// search returns the record that Find finds, and its slot. If there is none, it returns -1 and the empty slot for it.
func (n *Names) search(hash uint64, isNamed func(i int) bool) (i int, slot uint64) {
	tag := n.tag(hash)
	for slot = hash & n.mask; n.slots[slot] != 0; slot = (slot + 1) & n.mask {
		entry := n.slots[slot]
		if i := int(entry&n.index - 1); entry&^n.index == tag && isNamed(i) {
			return i, slot
		}
	}
	return -1, slot
}

// tag returns the bits of a hash that a slot has, in their place.
func (n *Names) tag(hash uint64) uint32 { return uint32(hash>>32) << bits.Len32(n.index) }
