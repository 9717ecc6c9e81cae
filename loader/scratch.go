package loader

import (
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// scratch is what decompressing needs, to be reused. It remembers the block that it holds:
// whoever reads rows one after the other has it expanded once.
type scratch struct {
	buf    []byte // carryRoom bytes for the end of the block before, then block
	block  []byte
	tensor *layout.Tensor // whose block it is, or nil
	number uint64         // of the block
	stored []byte         // read from a file that is not mapped

	decoder lz4block.Decoder
}

// carryRoom is more than a block of any dtype has.
const carryRoom = 512

var scratches = sync.Pool{New: func() any {
	b := mmapio.AlignedBytes(carryRoom + lz4block.Size)
	return &scratch{buf: b, block: b[carryRoom:]}
}}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// give returns sc for others to use, without memory that few of them would need.
func (sc *scratch) give() {
	if cap(sc.stored) > 1<<20 {
		sc.stored = nil
	}
	scratches.Put(sc)
}

func (sc *scratch) holds(t *layout.Tensor, block uint64) bool {
	return sc.tensor == t && sc.number == block
}

func (sc *scratch) storedBytes(n uint64) []byte {
	if n > uint64(cap(sc.stored)) {
		sc.stored = make([]byte, n)
	}
	return sc.stored[:n]
}
