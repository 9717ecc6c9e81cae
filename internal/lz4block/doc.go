// Package lz4block compresses and expands the blocks of APR2's compressed tensors. A tensor is
// stored as one block after another: a u32 length (little-endian), then that many bytes of raw
// LZ4 block, without a frame. Every block yields 65,536 bytes, the last one the rest.
//
// A [Decoder] expands one block. A [Writer] compresses on all cores.
package lz4block

import "encoding/binary"

const (
	// Size is the number of bytes that every block yields, but for the last one of a tensor.
	Size = 64 << 10
	// MaxStored is the most bytes that a block may take in the file, without its length. LZ4
	// needs them for Size bytes that it cannot compress.
	MaxStored = Size + Size/255 + 16
	// MaxExpansion is the most bytes that LZ4 makes of one.
	MaxExpansion = 255
	// LengthBytes is the size of the length in front of each block.
	LengthBytes = 4
)

// Count returns the number of blocks of a tensor of raw bytes.
func Count(raw uint64) uint64 { return raw/Size + (raw%Size+Size-1)/Size }

// Length reads the length in front of a block.
func Length(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
