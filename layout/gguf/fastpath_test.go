package gguf

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/testmode"
)

// strings64 writes strings of the given lengths, all of byte c.
func strings64(c byte, lengths ...int) []byte {
	var b []byte
	for _, n := range lengths {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
		b = append(b, bytes.Repeat([]byte{c}, n)...)
	}
	return b
}

// sameAsOneByOne compares with the walk that has no lanes.
func sameAsOneByOne(t *testing.T, name string, b []byte, n uint64) {
	t.Helper()
	size, count := skipStrings(b, n, width{bytes: 8})
	wantSize, wantCount := skipOneByOne(b, n, width{bytes: 8})
	if size != wantSize || count != wantCount {
		t.Errorf("%s, %d strings: %d in %d bytes, want %d in %d", name, n, count, size, wantCount, wantSize)
	}
}

func TestSkipStrings(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(1, 1))
	some := func(n, least, most int) []int {
		lengths := make([]int, n)
		for i := range lengths {
			lengths[i] = least + rng.IntN(most-least+1)
		}
		return lengths
	}
	with := func(lengths []int, at, n int) []int {
		lengths[at] = n
		return lengths
	}
	for name, b := range map[string][]byte{
		"words":            strings64('x', some(30_000, 1, 12)...),
		"empty":            strings64(0, make([]int, 30_000)...),
		"words and empty":  strings64('x', some(30_000, 0, 3)...),
		"NULs":             strings64(0, some(30_000, 0, 20)...),
		"ones":             strings64(1, some(30_000, 0, 20)...),
		"high bytes":       strings64(0xff, some(30_000, 0, 300)...),
		"sentences":        strings64('x', some(1000, 200, 900)...),
		"one long":         strings64('x', with(some(30_000, 1, 12), 4000, 100_000)...),
		"one at the limit": strings64('x', with(some(30_000, 1, 12), 4000, longest)...),
		"one below":        strings64('x', with(some(30_000, 1, 12), 4000, longest-1)...),
		"long":             strings64('x', some(20, 5000, 100_000)...),
		// Each string is taken for a length, were one to begin a byte too early.
		"lengths in strings": strings64(8, some(30_000, 8, 9)...),
		"none":               nil,
	} {
		_, all := skipOneByOne(b, 1<<62, width{bytes: 8})
		for _, n := range []uint64{0, 1, few - 1, few, few + 1, all / 2, all - min(1, all), all, all + 1, 1 << 62} {
			sameAsOneByOne(t, name, b, n)
		}
		for _, cut := range []int{1, 7, 8, 9, 1000} {
			sameAsOneByOne(t, name, b[:max(0, len(b)-cut)], 1<<62)
		}
		// A length that leaves the file, in any of the lanes.
		for at := 0; at+8 < len(b); at += 40_009 {
			b[at+7] ^= 0x80
			sameAsOneByOne(t, name, b, 1<<62)
			b[at+7] ^= 0x80
		}
	}
}

// TestSkipBlock makes sure that words are walked through in lanes, and that a wrong guess
// of where strings begin is seen.
func TestSkipBlock(t *testing.T) {
	var lengths []int
	for i := range 10_000 {
		lengths = append(lengths, 1+i%11)
	}
	b := strings64('x', lengths...)
	size, count := skipBlock((*[block]byte)(b))
	if size < 4*lane || size > block || count == 0 {
		t.Fatalf("%d strings in %d of %d bytes", count, size, block)
	}
	if want, n := skipOneByOne(b, count, width{bytes: 8}); want != size || n != count {
		t.Errorf("%d strings in %d bytes, and not %d in %d", count, size, n, want)
	}
	// A length between two letters, where the second lane will look for one.
	for _, at := range []uint64{lane + 3, 2*lane + 5, 3*lane + 7} {
		c := append([]byte(nil), b...)
		i := guessStart((*[block]byte)(c), at) - 12 // inside the string before
		copy(c[i:], "\x05\x00\x00\x00\x00\x00\x00\x00")
		sameAsOneByOne(t, "trap", c, 1<<62)
	}
}

func FuzzSkipStrings(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00a"), []byte{1, 2, 3}, uint64(5000))
	f.Fuzz(func(t *testing.T, piece, lengths []byte, n uint64) {
		var b []byte
		for i := 0; i < 97 && len(lengths) > 0; i++ {
			b = append(b, strings64(lengths[0], int(lengths[i%len(lengths)]))...)
			if i == 0 {
				b = append(b, piece...)
			}
		}
		// Repeated until lanes have something to do.
		sameAsOneByOne(t, "fuzz", bytes.Repeat(b, 3*block/max(1, len(b))+1), n)
	})
}
