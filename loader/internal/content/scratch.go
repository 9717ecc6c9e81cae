package content

import (
	"sync"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// scratch is reusable memory for one goroutine. It remembers the block that it holds: rows that
// are read one after the other expand a block once.
type scratch struct {
	block  []byte
	table  *Table // whose block it is, or nil
	number uint64 // of the block
	stored []byte // read from a file that is not mapped

	decoder lz4block.Decoder
}

var scratches = sync.Pool{New: func() any { return &scratch{block: mmapio.AlignedBytes(lz4block.Size)} }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// give returns sc to the pool. It first frees a buffer of stored bytes that is larger than 1 MiB.
func (sc *scratch) give() {
	if cap(sc.stored) > 1<<20 {
		sc.stored = nil
	}
	scratches.Put(sc)
}

// holds reports whether sc.block is the expanded block of t with this number.
func (sc *scratch) holds(t *Table, block uint64) bool {
	return sc.table == t && sc.number == block
}

// forget makes holds report false until block has expanded another block into sc.
func (sc *scratch) forget() { sc.table = nil }

// storedBytes returns n bytes of memory of sc, whose contents are undefined.
func (sc *scratch) storedBytes(n uint64) []byte {
	if n > uint64(cap(sc.stored)) {
		sc.stored = make([]byte, n)
	}
	return sc.stored[:n]
}
