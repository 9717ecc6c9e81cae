package block_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/block"

	"github.com/x448/float16"
)

// TestFloatToHalf compares with x448/float16 at every exponent, around every place where
// rounding decides, and at random.
func TestFloatToHalf(t *testing.T) {
	check := func(b uint32) {
		f := math.Float32frombits(b)
		if got, want := block.Half(f), float16.Fromfloat32(f).Bits(); got != want {
			t.Fatalf("%08x (%v): %04x, want %04x", b, f, got, want)
		}
	}
	for h := range uint32(1 << 16) { // every half, and between it and its neighbours
		b := math.Float32bits(block.Float(uint16(h)))
		for _, d := range []uint32{0, 1, 2, 0xffe, 0xfff, 0x1000, 0x1001, 0x1002, 0x1fff, 0x2000, 0x2001, 0x2002} {
			check(b + d)
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 1_000_000 {
		check(rng.Uint32())
	}
	for e := range uint32(512) {
		for shift := range 24 {
			for d := range uint32(3) {
				check(e<<23 + 1<<shift + d - 1)
			}
		}
	}
}
