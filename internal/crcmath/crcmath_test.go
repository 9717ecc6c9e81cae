package crcmath_test

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/crcmath"
)

// TestCombine splits messages at random and puts the parts' checksums together.
func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lengths := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 255, 256, 1000, 4096, 65537}
	for _, n := range lengths {
		b := make([]byte, n)
		rand.NewChaCha8([32]byte{3}).Read(b)
		for range 20 {
			crc := uint32(0)
			for at := 0; at < n; {
				part := b[at : at+rng.IntN(n-at+1)] // also empty
				crc = crcmath.Combine(crc, crc32.ChecksumIEEE(part), crcmath.XPow8(uint64(len(part))))
				at += len(part)
			}
			if want := crc32.ChecksumIEEE(b); crc != want {
				t.Errorf("%d bytes: %08x, want %08x", n, crc, want)
			}
		}
	}
}

func TestCombineNothing(t *testing.T) {
	a := crc32.ChecksumIEEE([]byte("some bytes"))
	none := crcmath.XPow8(0)
	if got := crcmath.Combine(a, 0, none); got != a {
		t.Errorf("followed by nothing: %08x, want %08x", got, a)
	}
	if got := crcmath.Combine(0, a, crcmath.XPow8(10)); got != a {
		t.Errorf("after nothing: %08x, want %08x", got, a)
	}
	if got := crcmath.Combine(0, 0, none); got != 0 {
		t.Errorf("nothing at all: %08x", got)
	}
}

// TestXPow8 doubles its way to lengths that no message in memory has.
func TestXPow8(t *testing.T) {
	// The checksum of n zero bytes, found by putting two halves together.
	crc, n := crc32.ChecksumIEEE([]byte{0}), uint64(1)
	for n < 1<<62 {
		crc = crcmath.Combine(crc, crc, crcmath.XPow8(n))
		n *= 2
		if n <= 1<<22 {
			if want := crc32.ChecksumIEEE(make([]byte, n)); crc != want {
				t.Errorf("%d zeros: %08x, want %08x", n, crc, want)
			}
		}
	}
	// x^(8n) has period 2^32-1, the order of the IEEE polynomial.
	for _, n := range []uint64{0, 1, 12345} {
		if a, b := crcmath.XPow8(n), crcmath.XPow8(n+1<<32-1); a != b {
			t.Errorf("x^8n of %d is %08x, a period later %08x", n, a, b)
		}
	}
}
