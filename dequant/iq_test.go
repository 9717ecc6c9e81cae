package dequant

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The codebooks as the oracles see them: element j of combination i, in numbers.

var (
	iq2Values3 = []int{0x08, 0x19, 0x2b}
	iq3XXS8    = []int{0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e}
	iq3S8      = []int{1, 3, 5, 7, 9, 11, 13, 15}
	iq1Values3 = []int{-1, 0, 1}
)

func entry[T uint16 | uint32](grid []T, values []int, i, j int) float32 {
	return float32(values[uint64(grid[i])>>(4*j)&15])
}

// TestGrids holds the codebooks against checksums that testdata/gen_grids.py took of the package gguf's.
func TestGrids(t *testing.T) {
	b, err := os.ReadFile("testdata/grids.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{
		"IQ2_XXS": checksum(iq2xxsGrid[:], iq2Values3, 8),
		"IQ2_XS":  checksum(iq2xsGrid[:], iq2Values3, 8),
		"IQ2_S":   checksum(iq2sGrid[:], iq2Values3, 8),
		"IQ3_XXS": checksum(iq3xxsGrid[:], iq3XXS8, 4),
		"IQ3_S":   checksum(iq3sGrid[:], iq3S8, 4),
		"IQ1_S":   checksum(iq1sGrid[:], iq1Values3, 8),
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != len(sums) {
		t.Errorf("%d checksums, want %d", len(lines), len(sums))
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		if sums[name] != want {
			t.Errorf("%s: the codebook's checksum is %s, want %s", name, sums[name], want)
		}
	}
}

// checksum is of the grid's numbers as int8.
func checksum[T uint16 | uint32](grid []T, values []int, elems int) string {
	var b []byte
	for i := range grid {
		for j := range elems {
			b = append(b, byte(int8(entry(grid, values, i, j))))
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// evenSign is sign i of eight of which the last is not stored: it makes the minus signs even in number.
func evenSign(seven uint32, i int) float32 {
	if i == 7 {
		product := float32(1)
		for k := range 7 {
			product *= evenSign(seven, k)
		}
		return product
	}
	return sign(seven >> i & 1)
}

func sign(bit uint32) float32 { return 1 - 2*float32(bit) }

// iq2Scale is (d·(s+½))·¼.
func iq2Scale(d float32, s byte) float32 { return mul(mul(d, float32(s)+0.5), 0.25) }

func iq2XXS(b []byte, i int) float32 {
	k, l, j := i/32, i/8%4, i%8
	s := binary.LittleEndian.Uint32(b[2+8*k+4:])
	g := entry(iq2xxsGrid[:], iq2Values3, int(b[2+8*k+l]), j)
	return mul(mul(iq2Scale(half(b), byte(s>>28)), g), evenSign(s>>(7*l), j))
}

func iq2XS(b []byte, i int) float32 {
	q := binary.LittleEndian.Uint16(b[2+i/8*2:])
	s := nibbleAt(b[66:], i/16)
	return mul(mul(iq2Scale(half(b), s), entry(iq2xsGrid[:], iq2Values3, int(q%512), i%8)), evenSign(uint32(q/512), i%8))
}

func iq2S(b []byte, i int) float32 {
	g := i / 8
	q := int(b[2+g]) + 256*int(b[66+g/4]>>(g%4*2)&3)
	s := nibbleAt(b[74:], i/16)
	return mul(mul(iq2Scale(half(b), s), entry(iq2sGrid[:], iq2Values3, q, i%8)), sign(uint32(bit(b[34:], i))))
}

func iq3XXS(b []byte, i int) float32 {
	s := binary.LittleEndian.Uint32(b[66+i/32*4:])
	db := mul(mul(half(b), float32(s>>28)+0.5), 0.5)
	return mul(mul(db, entry(iq3xxsGrid[:], iq3XXS8, int(b[2+i/4]), i%4)), evenSign(s>>(i/8%4*7), i%8))
}

func iq3S(b []byte, i int) float32 {
	q := int(b[2+i/4]) + 256*bit(b[66:], i/4)
	db := mul(half(b), float32(1+2*nibbleAt(b[106:], i/32)))
	return mul(mul(db, entry(iq3sGrid[:], iq3S8, q, i%4)), sign(uint32(bit(b[74:], i))))
}

func iq1S(b []byte, i int) float32 {
	h := binary.LittleEndian.Uint16(b[34+i/32*2:])
	q := int(b[2+i/8]) + 256*int(h>>(i/8%4*3)&7)
	dl := mul(half(b), float32(2*(h>>12&7)+1))
	return mul(dl, entry(iq1sGrid[:], iq1Values3, q, i%8)+sign(uint32(h>>15))/8)
}

func iq1M(b []byte, i int) float32 {
	sc := b[48:]
	d := half([]byte{sc[1]>>4 | sc[3]&0xf0, sc[5]>>4 | sc[7]&0xf0})
	s := binary.LittleEndian.Uint16(sc[i/64*2:]) >> (i / 16 % 4 * 3) & 7
	h := nibbleAt(b[32:], i/8)
	q := int(b[i/8]) + 256*int(h&7)
	return mul(mul(d, float32(2*s+1)), entry(iq1sGrid[:], iq1Values3, q, i%8)+sign(uint32(h>>3))/8)
}

// nibbleAt is nibble i of b, the lower one of a byte first.
func nibbleAt(b []byte, i int) byte { return b[i/2] >> (i % 2 * 4) & 15 }

// tq1 divides in base three: a byte b is the fraction b/256, rounded up, of five digits.
func tq1(b []byte, i int) float32 {
	at, run := i%32, i/32
	switch {
	case i >= 240:
		at, run = 48+i%4, (i-240)/4
	case i >= 160:
		at, run = 32+i%16, (i-160)/16
	}
	x := int(b[at])
	for range run {
		x = x * 3 % 256
	}
	return mul(float32(x*3/256-1), half(b[52:]))
}

func ue4m3(b byte) float64 {
	if b == 0x7f {
		return 0
	}
	if b&0x7f == 0x7f {
		return 480
	}
	return float64(e4m3(b & 0x7f))
}
