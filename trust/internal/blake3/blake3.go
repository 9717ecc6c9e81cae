// Package blake3 computes BLAKE3 digests of 32 bytes, in portable Go. Its source is the specification,
// "BLAKE3: one function, fast everywhere" of 2021. Keys, derivation and longer output are left out.
package blake3

import (
	"encoding/binary"
	"hash"
	"math/bits"
)

// Size is the length of a digest, in bytes.
const Size = 32

const (
	blockBytes = 64
	chunkBytes = 1024
)

// The flags of section 2.2.
const (
	chunkStart = 1 << iota
	chunkEnd
	parent
	root
)

// value is a chaining value: half of a state of the compression.
type value [8]uint32

var initial = value{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19}

// rounds holds the order of the message's words in each round: the permutation of table 2, repeated.
var rounds = func() (r [7][16]uint8) {
	permutation := [16]uint8{2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8}
	for i := range r[0] {
		r[0][i] = uint8(i)
	}
	for k := 1; k < len(r); k++ {
		for i, from := range permutation {
			r[k][i] = r[k-1][from]
		}
	}
	return r
}()

// mix computes the function G of section 2.2.
func mix(a, b, c, d, x, y uint32) (uint32, uint32, uint32, uint32) {
	a += b + x
	d = bits.RotateLeft32(d^a, -16)
	c += d
	b = bits.RotateLeft32(b^c, -12)
	a += b + y
	d = bits.RotateLeft32(d^a, -8)
	c += d
	b = bits.RotateLeft32(b^c, -7)
	return a, b, c, d
}

// compress returns the chaining value after a block of n bytes, padded with zeros.
func compress(cv *value, block *[blockBytes]byte, counter uint64, n int, flags uint32) value {
	var m [16]uint32
	for i := range m {
		m[i] = binary.LittleEndian.Uint32(block[4*i:])
	}
	v0, v1, v2, v3, v4, v5, v6, v7 := cv[0], cv[1], cv[2], cv[3], cv[4], cv[5], cv[6], cv[7]
	v8, v9, v10, v11 := initial[0], initial[1], initial[2], initial[3]
	v12, v13, v14, v15 := uint32(counter), uint32(counter>>32), uint32(n), flags
	for i := range rounds {
		w := &rounds[i]
		v0, v4, v8, v12 = mix(v0, v4, v8, v12, m[w[0]&15], m[w[1]&15])
		v1, v5, v9, v13 = mix(v1, v5, v9, v13, m[w[2]&15], m[w[3]&15])
		v2, v6, v10, v14 = mix(v2, v6, v10, v14, m[w[4]&15], m[w[5]&15])
		v3, v7, v11, v15 = mix(v3, v7, v11, v15, m[w[6]&15], m[w[7]&15])
		v0, v5, v10, v15 = mix(v0, v5, v10, v15, m[w[8]&15], m[w[9]&15])
		v1, v6, v11, v12 = mix(v1, v6, v11, v12, m[w[10]&15], m[w[11]&15])
		v2, v7, v8, v13 = mix(v2, v7, v8, v13, m[w[12]&15], m[w[13]&15])
		v3, v4, v9, v14 = mix(v3, v4, v9, v14, m[w[14]&15], m[w[15]&15])
	}
	return value{v0 ^ v8, v1 ^ v9, v2 ^ v10, v3 ^ v11, v4 ^ v12, v5 ^ v13, v6 ^ v14, v7 ^ v15}
}

// digest hashes a chunk of the input at a time, and keeps the roots of complete subtrees.
type digest struct {
	cv    value // of the chunk, before its last block
	block [blockBytes]byte
	n     int    // bytes in block
	done  int    // blocks of the chunk in cv
	chunk uint64 // its number
	stack []value
}

// New returns a hash whose sums are BLAKE3 digests of 32 bytes.
func New() hash.Hash { return &digest{cv: initial} }

func (d *digest) Size() int      { return Size }
func (d *digest) BlockSize() int { return blockBytes }
func (d *digest) Reset()         { *d = digest{cv: initial, stack: d.stack[:0]} }

// Write hashes p. The last block waits, because the end of the input marks it.
func (d *digest) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if d.n == blockBytes {
			d.endBlock()
		}
		n := copy(d.block[d.n:], p)
		d.n += n
		p = p[n:]
	}
	return written, nil
}

// endBlock compresses a full block that is not the last one.
func (d *digest) endBlock() {
	last := d.done == chunkBytes/blockBytes-1
	d.cv = compress(&d.cv, &d.block, d.chunk, blockBytes, d.flags(last))
	d.n = 0
	d.done++
	if last {
		d.endChunk()
	}
}

// flags returns those of the current block.
func (d *digest) flags(last bool) (f uint32) {
	if d.done == 0 {
		f = chunkStart
	}
	if last {
		f |= chunkEnd
	}
	return f
}

// endChunk joins the chunk with the complete subtrees of its size on its left.
func (d *digest) endChunk() {
	cv := d.cv
	for n := d.chunk + 1; n&1 == 0; n >>= 1 {
		last := len(d.stack) - 1
		cv = join(&d.stack[last], &cv, 0)
		d.stack = d.stack[:last]
	}
	d.stack = append(d.stack, cv)
	d.chunk++
	d.cv, d.done = initial, 0
}

// join returns the chaining value of a parent.
func join(left, right *value, flags uint32) value {
	var block [blockBytes]byte
	for i := range left {
		binary.LittleEndian.PutUint32(block[4*i:], left[i])
		binary.LittleEndian.PutUint32(block[Size+4*i:], right[i])
	}
	return compress(&initial, &block, 0, blockBytes, parent|flags)
}

// Sum appends the digest of what was written, and changes nothing.
func (d *digest) Sum(b []byte) []byte {
	block := d.block
	clear(block[d.n:])
	flags := d.flags(true)
	if len(d.stack) == 0 {
		flags |= root
	}
	cv := compress(&d.cv, &block, d.chunk, d.n, flags)
	for i := len(d.stack) - 1; i >= 0; i-- {
		flags = 0
		if i == 0 {
			flags = root
		}
		cv = join(&d.stack[i], &cv, flags)
	}
	for _, w := range cv {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}
