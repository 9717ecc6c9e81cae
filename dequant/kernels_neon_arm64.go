//go:build !purego

package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/internal/block"
)

// neonPlaces[bits] has the constants that unpack 32 codes of the given number of bits to lanes of 32 bits. First come the indices
// of eight table lookups, each for four codes. Then come the shifts of eight codes, negative for shifts to the right. Indices
// below 16 are bytes of the first register, which holds the first bytes of the codes. Indices from 16 on are bytes of the second
// register, which holds the last bytes.
var neonPlaces = func() (t [8][160]byte) {
	for bits := 1; bits < 8; bits++ {
		size, first := 4*bits, 16 // bytes of all codes, and of the first register
		if bits == 3 {
			first = 8
		}
		for c := range 32 {
			for i := range 4 {
				at := c*bits/8 + i
				switch {
				case i > 1 || at >= size:
					at = 255 // makes a zero
				case at >= first:
					at += 16 + first - size
				}
				t[bits][4*c+i] = byte(at)
			}
		}
		for c := range 8 {
			binary.LittleEndian.PutUint32(t[bits][128+4*c:], uint32(-(c * bits % 8)))
		}
	}
	return t
}()

// neonSpread are the indices of four table lookups that move 16 bytes to the tops of 16
// lanes of 32 bits. Indices out of range give the zero below.
var neonSpread = func() (t [64]uint8) {
	for i := range t {
		t[i] = 0xff
		if i%4 == 3 {
			t[i] = uint8(i / 4)
		}
	}
	return t
}()

// neonRepeat are the indices of four table lookups that fill lanes of 32 bits with one of 16 bytes
// each.
var neonRepeat = func() (t [64]uint8) {
	for i := range t {
		t[i] = uint8(i / 4)
	}
	return t
}()

// The int8s that nibbles stand for, and the tables that spread bits.
var (
	neonQ4Codes                          = [16]int8{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	neonIQ4Codes, neonFP4Codes, neonBits = block.IQ4, block.FP4, block.NEONBits
)
