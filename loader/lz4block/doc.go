// Package lz4block reads and writes tensors that are compressed as APR2 defines it: one
// block after another, each a u32 length (little-endian) and that many bytes of raw LZ4
// block (no frame), which yield 65,536 bytes, the last block the rest.
//
// Nothing in a file says where a block begins but the lengths of all blocks before it. A
// [Table] walks them, no further than it has to and no length twice. A [Decoder] expands one
// block, [Writer] compresses on all cores.
package lz4block

import (
	"encoding/binary"

	"github.com/pierrec/lz4/v4"
)

const (
	// Size is what every block yields, but for the last one of a tensor.
	Size = 64 << 10
	// MaxStored is the most bytes that a block may take in the file, without its length:
	// what LZ4 makes of Size bytes that it cannot compress.
	MaxStored = Size + Size/255 + 16
	// LengthBytes is the size of the length in front of each block.
	LengthBytes = 4

	maxExpansion = 255 // the most bytes that LZ4 makes of one
)

// Count is the number of blocks of a tensor of raw bytes.
func Count(raw uint64) uint64 { return raw/Size + (raw%Size+Size-1)/Size }

// Yield is the number of bytes that block i of a tensor of raw bytes yields.
func Yield(raw, i uint64) int { return int(min(Size, raw-i*Size)) }

// A Decoder expands blocks from a copy that it makes of them. The zero value is ready for use.
//
// The copy is what lets the blocks be mapped. The library's assembly calls from frames without
// a pointer map: a fault below one ends the process, even inside mmapio.Guard. A fault in the
// copying does not. Nor can another program change what the assembly has already checked.
type Decoder struct {
	table  *Table // whose blocks lo to hi-1 are copied
	lo, hi uint64
	stored []byte // from the start of block lo on
}

// copiedBlocks is how many blocks are copied at a time: more keep memory busy, fewer stay in
// a core's cache until they are expanded.
const copiedBlocks = 4

// Forget makes d copy anew what it is asked for next.
func (d *Decoder) Forget() { d.table = nil }

// copy makes d hold block i of t, and those that follow it up to hi-1. b is the stored bytes
// from the start of block lo on.
func (d *Decoder) copy(t *Table, b []byte, lo, i, hi uint64) {
	if d.table == t && d.lo <= i && i < d.hi {
		return
	}
	d.Forget()
	hi = min(hi, i+copiedBlocks)
	base, _ := t.Span(lo, lo)
	off, size := t.Span(i, hi)
	if size > uint64(cap(d.stored)) {
		d.stored = make([]byte, (hi-i)*(LengthBytes+MaxStored))
	}
	copy(d.stored[:size], b[off-base:][:size])
	d.table, d.lo, d.hi = t, i, hi
}

// expand expands the LZ4 block src, which is not mapped, into dst. dst must be filled to the
// last byte with src used up. It reports whether it was; if not, dst holds anything.
func expand(dst, src []byte) bool {
	n, err := lz4.UncompressBlock(src, dst)
	return err == nil && n == len(dst)
}

func length(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
