package content

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// Table holds the offsets of one tensor's blocks. It is safe for concurrent use. Offsets that
// are known already are read without a lock.
type Table struct {
	format      layout.Format
	offset      uint64 // of the tensor in its file, for errors
	storedBytes uint64
	rawBytes    uint64

	// blockStarts[i] is where block i begins, from the tensor's first byte; the last one is
	// where the first unknown block begins. They take 8 bytes for a block of 64 KiB.
	blockStarts atomic.Pointer[[]uint64]
	mu          parallel.Mutex // held while lengths are read, and blockStarts is replaced
}

// NewTable returns the table of a tensor. Its compressed blocks take the given number of stored bytes of a file, from offset on. They
// expand to the given number of raw bytes. NewTable reads nothing: only the start of the first block is known yet.
func NewTable(f layout.Format, offset, stored, raw uint64) *Table {
	t := &Table{format: f, offset: offset, storedBytes: stored, rawBytes: raw, mu: parallel.NewMutex()}
	t.blockStarts.Store(&[]uint64{0})
	return t
}

// Count returns the number of blocks that the tensor's elements take.
func (t *Table) Count() uint64 { return lz4block.Count(t.rawBytes) }

// KnownBlocks returns the number of blocks whose offsets and lengths are known: they are the first ones.
func (t *Table) KnownBlocks() uint64 { return uint64(len(*t.blockStarts.Load()) - 1) }

// ExpandedSize returns the number of bytes that block i, less than Count, yields.
func (t *Table) ExpandedSize(i uint64) int {
	return int(min(lz4block.Size, t.rawBytes-i*lz4block.Size))
}

// ByteRange returns how many bytes behind the tensor's first one the blocks lo to hi-1 begin, and how many
// bytes they take with their lengths. It panics unless all of them are known.
func (t *Table) ByteRange(lo, hi uint64) (off, size uint64) {
	starts := *t.blockStarts.Load()
	return starts[lo], starts[hi] - starts[lo]
}

// Reader gives access to n of the stored bytes, off from the tensor's first byte. The bytes
// are valid until the next call.
type Reader func(off, n uint64) ([]byte, error)

// FindBlocks makes sure that the offsets of the first n blocks are known. It calls read for the length of each block that is not known
// yet. It fails if read does. It returns a *[layout.FormatError] that names block and offset for a length that cannot be right. While
// another goroutine reads lengths, it waits, and fails if ctx ends first.
func (t *Table) FindBlocks(ctx context.Context, n uint64, read Reader) error {
	if t.KnownBlocks() >= n {
		return nil
	}
	if err := t.mu.Lock(ctx); err != nil {
		return err
	}
	defer t.mu.Unlock()
	starts := *t.blockStarts.Load()
	defer func() { t.blockStarts.Store(&starts) }()
	for uint64(len(starts)) <= n { // n blocks have n+1 offsets
		next, err := t.findNext(starts, read)
		if err != nil {
			return err
		}
		starts = append(starts, next) // append writes only behind the offsets that other goroutines may be reading
	}
	return nil
}

// FindBlocksIn notes the offsets of the blocks lo to hi-1 whose lengths lie in b. b has the stored bytes from the start of block lo
// on, and all blocks before lo are known. It returns the number of the first block that does not lie in b as a whole, but at most hi.
// It returns a *[layout.FormatError] for a length that cannot be right. While another goroutine reads lengths, it waits, and fails if ctx
// ends first.
func (t *Table) FindBlocksIn(ctx context.Context, lo, hi uint64, b []byte) (uint64, error) {
	base, _ := t.ByteRange(lo, lo)
	if t.KnownBlocks() < hi {
		err := t.FindBlocks(ctx, hi, func(off, n uint64) ([]byte, error) {
			if !layout.Within(off-base, n, uint64(len(b))) {
				return nil, errNotRead
			}
			return b[off-base:][:n], nil
		})
		if err != nil && err != errNotRead {
			return 0, err
		}
	}
	known := min(hi, t.KnownBlocks())
	fits := sort.Search(int(known-lo), func(i int) bool {
		_, size := t.ByteRange(lo, lo+uint64(i)+1)
		return size > uint64(len(b))
	})
	return lo + uint64(fits), nil
}

// errNotRead says that the length of a block was not read with the blocks before.
var errNotRead = errors.New("the length of the block was not read")

// findNext reads the length of the first unknown block by read, and returns the offset of the block's end. starts has the known offsets,
// and a block is unknown. It fails if read does. It returns a *[layout.FormatError] for a length that cannot be right.
func (t *Table) findNext(starts []uint64, read Reader) (next uint64, err error) {
	i := uint64(len(starts) - 1)
	at := starts[i]
	left := t.storedBytes - at
	if left < lz4block.LengthBytes {
		return 0, t.Errorf(i, at, layout.ErrTruncated, "its length lies in the last %d of the %d bytes stored", left, t.storedBytes)
	}
	b, err := read(at, lz4block.LengthBytes)
	if err != nil {
		return 0, err
	}
	n := lz4block.Length(b)
	left -= lz4block.LengthBytes
	switch yield := t.ExpandedSize(i); {
	case n > left:
		return 0, t.Errorf(i, at, layout.ErrTruncated, "a length of %d where %d bytes are left", n, left)
	case n > lz4block.MaxStored:
		return 0, t.Errorf(i, at, layout.ErrInvalid, "a length of %d, more than the %d that LZ4 needs at most", n, lz4block.MaxStored)
	case n*lz4block.MaxExpansion < uint64(yield):
		return 0, t.Errorf(i, at, layout.ErrInvalid, "a length of %d, which cannot yield %d bytes", n, yield)
	case i+1 == t.Count() && n < left:
		return 0, t.Errorf(i, at, layout.ErrInvalid, "a length of %d for the last block, but %d bytes are left", n, left)
	}
	return at + lz4block.LengthBytes + n, nil
}

// CheckEmptyTensor returns an error if the tensor has no elements but stored bytes. It passes any tensor with elements.
func (t *Table) CheckEmptyTensor() error {
	if t.rawBytes == 0 && t.storedBytes > 0 {
		return t.Errorf(0, 0, layout.ErrInvalid, "%d bytes stored for no elements", t.storedBytes)
	}
	return nil
}

// Errorf returns an error about block i, which is stored offset bytes behind the tensor's first one. It names the block and its
// offset in the file.
func (t *Table) Errorf(i, offset uint64, sentinel error, format string, args ...any) *layout.FormatError {
	e := layout.Errorf(t.format, t.offset+offset, "lz4", sentinel, format, args...)
	e.Reason = "block " + strconv.FormatUint(i, 10) + " of " + strconv.FormatUint(t.Count(), 10) + ": " + e.Reason
	return e
}
