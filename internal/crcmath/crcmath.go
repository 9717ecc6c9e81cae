// Package crcmath computes with CRC32 (IEEE) checksums. It computes the checksum of bytes while they are
// written. It also computes, from the checksums of two messages, the checksum of one followed by the other, without the bytes.
package crcmath

import (
	"hash/crc32"
	"io"
)

// Combine returns the CRC32 (IEEE) of two messages put together. a and b are their checksums,
// powB is XPow8 of the second one's length in bytes. Appending n zero bytes to a message
// multiplies its remainder by x^8n, so b's checksum is then just added.
func Combine(a, b, powB uint32) uint32 { return mul(powB, a) ^ b }

// Polynomials over GF(2) modulo the IEEE polynomial are bit-reflected, as the
// checksum is: bit 31 is the coefficient of x^0.
const (
	one = 1 << 31
	x8  = 1 << 23
)

// mul returns the product of two polynomials.
func mul(a, b uint32) (product uint32) {
	for bit := uint32(one); bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		// b times x
		if b&1 != 0 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return product
}

// XPow8 returns x to the power 8n, by squaring.
func XPow8(n uint64) uint32 {
	power := uint32(one)
	for square := uint32(x8); n != 0; n >>= 1 {
		if n&1 != 0 {
			power = mul(power, square)
		}
		square = mul(square, square)
	}
	return power
}

// Writer writes to W, and has the number and the checksum of the bytes that it has written.
type Writer struct {
	W     io.Writer
	Size  uint64
	CRC32 uint32 // IEEE
}

// sumBytes is the number of bytes that are summed and then written at a time, so that the write reads them from the
// cache.
const sumBytes = 256 << 10

// Write writes b to w.W. It fails if that does, or writes too little: Size then counts what was written of b, and CRC32 is wrong.
func (w *Writer) Write(b []byte) (written int, err error) {
	for written < len(b) {
		p := b[written:min(len(b), written+sumBytes)]
		w.CRC32 = crc32.Update(w.CRC32, crc32.IEEETable, p)
		n, err := w.W.Write(p)
		written += n
		w.Size += uint64(n)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
