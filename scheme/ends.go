package scheme

import (
	"encoding/binary"
	"math/bits"
)

// nameEnds is a set of the last five, eight and sixteen bytes of names, by their hash. It spares lookups of names that
// no tensor has.
type nameEnds struct {
	set  [1 << endBits / 64]uint64
	last [1 << lastBits]uint64 // ends added last: most names end like others
}

const endBits, lastBits = 15, 4

// add adds the last five, eight and sixteen bytes of a name to the set, by their hashes. It skips a name whose end
// was added lately.
func (s *nameEnds) add(name []byte) {
	end := lastBytes(name)
	long := end ^ mixed(before(name))
	v := hashed(long)
	if last := &s.last[v>>(endBits-lastBits)]; *last != long || long == 0 {
		*last = long
		for _, h := range [...]uint32{hashed(end >> 24), hashed(end), v} {
			s.set[h/64] |= 1 << (h % 64)
		}
	}
}

// has reports whether some name in the set may end so. It is always true for ends of less than five bytes.
func (s *nameEnds) has(end []byte) bool {
	v := lastBytes(end)
	switch n := len(end); {
	case n >= 16:
		v ^= mixed(before(end))
	case n >= 8:
	case n >= 5:
		v >>= 24
	default:
		return true
	}
	h := hashed(v)
	return s.set[h/64]&(1<<(h%64)) != 0
}

// lastBytes returns the last eight bytes of a name, with zeros before a shorter one.
func lastBytes(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.LittleEndian.Uint64(name[len(name)-8:])
	}
	var b [8]byte
	copy(b[8-len(name):], name)
	return binary.LittleEndian.Uint64(b[:])
}

func hashed(end uint64) uint32 { return uint32(end * 0x9e3779b97f4a7c15 >> (64 - endBits)) }

// before returns the eight bytes before the last eight of a name, with zeros before a shorter one.
func before(name []byte) uint64 {
	if len(name) >= 16 {
		return binary.LittleEndian.Uint64(name[len(name)-16:])
	}
	return lastBytes(name[:max(len(name)-8, 0)])
}

// mixed spreads the bits of v, for hashed to tell apart what it is combined with.
func mixed(v uint64) uint64 { return bits.RotateLeft64(v, 32) * 0xff51afd7ed558ccd }

// mayEnd reports whether some tensor's name may end so.
func (t *Table) mayEnd(end string) bool {
	if t.ends == nil {
		t.ends = new(nameEnds)
		for i := range t.tensors {
			t.ends.add(t.tensors[i].Name)
		}
	}
	return t.ends.has([]byte(end))
}
