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

// HashNameParts returns the hash of stem+end without making one.
func HashNameParts(stem, end string) uint64 {
	var h maphash.Hash
	h.SetSeed(nameSeed)
	h.WriteString(stem)
	h.WriteString(end)
	return h.Sum64()
}

// NewNames makes a table for up to n records, whose indexes are below n. It gets at most half
// full. At 4 bytes a slot, a record takes 8 to 16 bytes.
func NewNames(n int) *Names {
	size := 4
	for size < 2*n {
		size *= 2
	}
	return &Names{slots: make([]uint32, size), mask: uint64(size - 1), index: 1<<bits.Len32(uint32(n)) - 1}
}

// Add enters record i with a hash. The caller has made sure by Probe that it is new. It adds no
// more records than it asked NewNames for.
func (n *Names) Add(hash uint64, i int) {
	n.Enter(hash, i, func(int) bool { return false })
}

// Find returns the record with a hash for which named is true: it has the name searched for. It returns -1 if there is none.
func (n *Names) Find(hash uint64, named func(i int) bool) int {
	for p := n.Probe(hash); ; {
		if i, ok := p.Next(); !ok {
			return -1
		} else if named(i) {
			return i
		}
	}
}

// Enter enters record i with a hash and returns -1. If another has the name already, as Find finds it, Enter returns that.
func (n *Names) Enter(hash uint64, i int, named func(i int) bool) (other int) {
	for p := n.Probe(hash); ; {
		if other, ok := p.Next(); !ok {
			p.Add(i)
			return -1
		} else if named(other) {
			return other
		}
	}
}

// Probe starts a search for records with a hash.
func (n *Names) Probe(hash uint64) Probe {
	return Probe{n: n, at: hash & n.mask, tag: uint32(hash>>32) << bits.Len32(n.index)}
}

// Probe walks the records that may have the name searched for.
type Probe struct {
	n   *Names
	at  uint64
	tag uint32
}

// Next returns the next candidate. ok is false if none is left.
func (p *Probe) Next() (i int, ok bool) {
	for {
		slot := p.n.slots[p.at]
		if slot == 0 {
			return 0, false
		}
		p.at = (p.at + 1) & p.n.mask
		if slot&^p.n.index == p.tag {
			return int(slot&p.n.index - 1), true
		}
	}
}

// Add enters record i as [Names.Add] does, with the hash that p searches for. The caller calls it
// when Next has found that no candidate is left.
func (p *Probe) Add(i int) { p.n.slots[p.at] = p.tag | uint32(i+1) }
