package loader

import "hash/crc32"

// combineCRC32 is the CRC32 (IEEE) of a followed by b, from the checksums of the two and
// xPow8 of the length of b in bytes. Appending n zero bytes to a message multiplies its
// remainder by x^8n; with that, what is left of b's checksum is a sum.
func combineCRC32(a, b, powB uint32) uint32 { return crcMul(powB, a) ^ b }

// Polynomials over GF(2) modulo the IEEE polynomial are kept bit-reflected, as the
// checksum is: bit 31 is the coefficient of x^0.
const (
	crcOne = 1 << 31
	crcX8  = 1 << 23
)

// crcMul multiplies two polynomials.
func crcMul(a, b uint32) (product uint32) {
	for bit := uint32(crcOne); bit != 0; bit >>= 1 {
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

// xPow8 is x to the power 8n, by squaring.
func xPow8(n uint64) uint32 {
	power := uint32(crcOne)
	for square := uint32(crcX8); n != 0; n >>= 1 {
		if n&1 != 0 {
			power = crcMul(power, square)
		}
		square = crcMul(square, square)
	}
	return power
}
