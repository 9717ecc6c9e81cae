package lz4block

import (
	"bytes"
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// TestDecodeAtEdges has blocks of random sequences, whole and damaged, and what they expand to,
// lie directly before and directly behind pages that may not be touched.
func TestDecodeAtEdges(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	rounds := 20_000
	if testmode.Brief() {
		rounds = 2_000
	}
	rng := rand.New(rand.NewPCG(9, 10))
	const room = 2 * Size
	from, into := enclosed(t, room), enclosed(t, room)
	accepted := 0
	for round := range rounds {
		block := randomBlock(rng)
		want, ok := reference(block, room)
		if !ok {
			t.Fatalf("the reference refuses % x", block)
		}
		switch size := len(want); round % 4 {
		case 1:
			block = block[:rng.IntN(len(block)+1)]
		case 2:
			block[rng.IntN(len(block))] = byte(rng.Uint32())
		case 3:
			size = max(1, size+rng.IntN(5)-2)
			want = append(want, 0, 0)[:size]
		}
		got, ok := reference(block, len(want))
		ok = ok && len(got) == len(want)
		for by, decode := range decoders {
			for _, end := range []bool{false, true} {
				src, dst := from[:len(block)], into[:len(want)]
				if end {
					src, dst = from[room-len(block):], into[room-len(want):]
				}
				copy(src, block)
				clear(dst)
				if decode(dst, src) != ok || ok && !bytes.Equal(dst, got) {
					t.Fatalf("%s, round %d: not as the reference expands % x into %d bytes: %t", by, round, block, len(want), ok)
				}
			}
		}
		if ok {
			accepted++
		}
	}
	if accepted < rounds/4 || accepted == rounds {
		t.Errorf("%d of %d blocks accepted", accepted, rounds)
	}
}

// enclosed returns memory between two pages that may not be touched.
func enclosed(t *testing.T, n int) []byte {
	page := syscall.Getpagesize()
	n = (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, n+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	for _, at := range []int{0, page + n} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page : page+n]
}

// randomBlock returns a block of a few sequences, of all distances and lengths that are short,
// and some that are long.
func randomBlock(rng *rand.Rand) (block []byte) {
	length := func() int {
		switch rng.IntN(8) {
		case 0:
			return rng.IntN(1500)
		case 1, 2:
			return rng.IntN(100)
		}
		return rng.IntN(20)
	}
	more := func(n int) {
		for n -= 15; n >= 0; n -= 255 {
			block = append(block, byte(min(n, 255)))
		}
	}
	size := 0
	for sequences := rng.IntN(12); ; sequences-- {
		literals, match := length(), length()
		if size == 0 {
			literals++
		}
		if sequences <= 0 {
			match = 0
		}
		block = append(block, byte(min(literals, 15)<<4|min(match, 15)))
		more(literals)
		for range literals {
			block = append(block, byte(rng.Uint32()))
		}
		size += literals
		if sequences <= 0 {
			return block
		}
		distance := 1 + rng.IntN(min(size, 70))
		if rng.IntN(3) == 0 {
			distance = 1 + rng.IntN(min(size, 1<<16-1))
		}
		block = append(block, byte(distance), byte(distance>>8))
		more(match)
		size += match + 4
	}
}
