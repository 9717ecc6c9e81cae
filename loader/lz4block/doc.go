// Package lz4block reads and writes tensors that are compressed as APR2 defines it: one
// block after another, each a u32 length (little-endian) and that many bytes of raw LZ4
// block (no frame), which yield 65,536 bytes, the last block the rest.
//
// Nothing in a file says where a block begins but the lengths of all blocks before it. A
// [Table] walks them, no further than it has to and no length twice. A [Decoder] expands one
// block, [Writer] compresses on all cores.
package lz4block

import "encoding/binary"

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

func length(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
