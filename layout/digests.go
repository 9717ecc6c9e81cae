package layout

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// Granularity tells how much of a file has to be hashed before any byte of it can be trusted.
type Granularity uint8

const (
	Unverified Granularity = iota // nothing is hashed
	ByChunk                       // chunks of one size
	ByShard                       // the ranges that a signature of another program lists
	ByFile                        // each file as a whole
)

// String returns the granularity as verify prints it: none, chunk, shard or file.
func (g Granularity) String() string { return [...]string{"none", "chunk", "shard", "file"}[g] }

// Digests say which bytes a file must have, as a signature or its user states them.
type Digests struct {
	// Head is the start of the file. The maker of the Digests has verified these bytes.
	Head []byte
	// Off and End enclose the bytes that Sums cover: Off is the length of Head. Bytes from End on
	// are not covered.
	Off, End uint64
	// Chunk is the number of bytes that each sum covers but the last, which may cover fewer.
	Chunk uint64
	// Sums holds the chunks' digests, one behind the other.
	Sums []byte
	// New makes the hash; nil means SHA-256.
	New func() hash.Hash

	Granularity Granularity // of this file
}

// Count returns the number of chunks.
func (d *Digests) Count() uint64 {
	if d.End <= d.Off {
		return 0
	}
	return (d.End-d.Off-1)/d.Chunk + 1
}

// ChunkRange returns the bytes that chunk i covers.
func (d *Digests) ChunkRange(i uint64) (off, n uint64) {
	off = d.Off + i*d.Chunk
	return off, min(d.Chunk, d.End-off)
}

// The sizes of chunks that a signature may have: powers of two, in bytes.
const (
	MinChunk  = 1 << 16
	MaxChunk  = 1 << 30
	MaxChunks = 1 << 15
)

// ChunkFor returns the size of chunks for a signature over n bytes: 4 MiB, and more if there would be
// more than MaxChunks of them.
func ChunkFor(n uint64) uint64 {
	size := uint64(4 << 20)
	for size < MaxChunk && (n+size-1)/size > MaxChunks {
		size *= 2
	}
	return size
}

// ChunkOK reports whether a signature over n bytes may have chunks of size bytes.
func ChunkOK(size, n uint64) bool {
	return size >= MinChunk && size <= MaxChunk && size&(size-1) == 0 && n <= MaxChunks*size
}

// NewHash returns the hash that makes a sum.
func (d *Digests) NewHash() hash.Hash {
	if d.New == nil {
		return sha256.New()
	}
	return d.New()
}

// HashSize returns the length of a sum in bytes.
func (d *Digests) HashSize() int { return d.NewHash().Size() }

// Sum returns the digest of chunk i.
func (d *Digests) Sum(i uint64) []byte {
	n := uint64(d.HashSize())
	return d.Sums[i*n : i*n+n]
}

// IntegrityError means that a chunk of a file is not the trusted one. It wraps ErrChecksum.
type IntegrityError struct {
	File   string // its path, or the name of its reader
	Chunk  uint64 // its number, from 0
	Offset uint64 // of the chunk's first byte in the file
	Tensor string // that was asked for; "" if it was none
	Want   []byte // the trusted digest
	Got    []byte // the digest of the bytes that are there
}

// Error leaves out the file and the tensor, which the errors around it name.
func (e *IntegrityError) Error() string {
	return fmt.Sprintf("chunk %d, from offset %d, has the digest %x, but the trusted one has %x (%v)", e.Chunk, e.Offset, e.Got, e.Want, ErrChecksum)
}

// Unwrap returns ErrChecksum.
func (e *IntegrityError) Unwrap() error { return ErrChecksum }
