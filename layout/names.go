package layout

import "hash/maphash"

// Names finds records by name: tensors, keys of metadata, nodes of a graph. It is an
// open-addressing hash table that stores no names. A slot holds an index and some bits of the
// hash; the owner of the records compares, whether names are strings, bytes or offsets in a file.
//
//	for p := names.Probe(hash); ; {
//		i, ok := p.Next()
//		if !ok { … not there … }
//		if records[i].name == name { … found … }
//	}
//
// The hash is seeded anew in every process: a file cannot choose names that collide.
type Names struct {
	slots []uint64 // tag<<32 | index+1; 0 is empty
	mask  uint64
}

var nameSeed = maphash.MakeSeed()

// HashName is the hash under which Names files name.
func HashName(name string) uint64 { return maphash.String(nameSeed, name) }

// HashNameBytes is HashName of string(name).
func HashNameBytes(name []byte) uint64 { return maphash.Bytes(nameSeed, name) }

// NewNames makes a table for up to n records, at most half full: at 8 bytes a slot,
// 16 to 32 bytes a record.
func NewNames(n int) *Names {
	size := 4
	for size < 2*n {
		size *= 2
	}
	return &Names{slots: make([]uint64, size), mask: uint64(size - 1)}
}

// Add files record i under hash. The caller has made sure by Probe that it is new,
// and adds no more records than it asked NewNames for.
func (n *Names) Add(hash uint64, i int) {
	at := hash & n.mask
	for n.slots[at] != 0 {
		at = (at + 1) & n.mask
	}
	n.slots[at] = hash&tagMask | uint64(uint32(i)+1) // an int may have but 32 bits
}

const tagMask = 0xffffffff_00000000

// Probe starts a search for records filed under hash.
func (n *Names) Probe(hash uint64) Probe {
	return Probe{n: n, at: hash & n.mask, tag: hash & tagMask}
}

// Probe walks the records that may have the name searched for.
type Probe struct {
	n   *Names
	at  uint64
	tag uint64
}

// Next is the next candidate; ok is false when there is none left.
func (p *Probe) Next() (i int, ok bool) {
	for {
		slot := p.n.slots[p.at]
		if slot == 0 {
			return 0, false
		}
		p.at = (p.at + 1) & p.n.mask
		if slot&tagMask == p.tag {
			return int(uint32(slot) - 1), true
		}
	}
}

// Add files record i as [Names.Add] does, under the hash that p searched for: Next has just
// said that none is left.
func (p *Probe) Add(i int) { p.n.slots[p.at] = p.tag | uint64(uint32(i)+1) }
