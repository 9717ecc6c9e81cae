package content

import (
	"sync"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// scratch is reusable memory for one goroutine. It remembers the block that it holds: rows that
// are read one after the other expand a block once.
type scratch struct {
	block       []byte
	table       *Table // the table that block belongs to, or nil if block has none
	blockNumber uint64 // of the block
	stored      []byte // read from a file that is not mapped

	decoder lz4block.Decoder
}

// scratches is the pool of scratch memory that nobody uses, which may have a block.
var scratches = sync.Pool{New: func() any { return &scratch{block: mmapio.AlignedBytes(lz4block.Size)} }}

// release returns sc to the pool. It first frees a buffer of stored bytes that is larger than 1 MiB.
func (sc *scratch) release() {
	if cap(sc.stored) > 1<<20 {
		sc.stored = nil
	}
	scratches.Put(sc)
}

// hasBlock reports whether sc.block is the expanded block of t with this number.
func (sc *scratch) hasBlock(t *Table, block uint64) bool {
	return sc.table == t && sc.blockNumber == block
}

// Grown returns memory of length n: the memory of s if it is large enough, else new and aligned. Its content is unspecified.
func Grown[T mmapio.Number](s []T, n uint64) []T {
	if n <= uint64(cap(s)) {
		return s[:n]
	}
	return mmapio.Aligned[T](int(n))
}
