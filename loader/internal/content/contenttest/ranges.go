package contenttest

import (
	"math/rand/v2"
	"sync"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// Concurrently runs check in eight goroutines, on random ranges within size bytes or elements, of up to longest each.
// A goroutine ends early if its check fails.
func Concurrently(size, longest uint64, check func(r Range) bool) {
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 50 {
				off := rng.Uint64N(size + 1)
				if !check(Range{off, rng.Uint64N(min(size-off, longest) + 1)}) {
					return
				}
			}
		})
	}
	readers.Wait()
}

// Range is N bytes, or elements, from Off on.
type Range struct{ Off, N uint64 }

// Ranges returns ranges within size bytes or elements. They begin and end at 0, at size, at boundaries of blocks and
// pages, one next to a boundary, and at random offsets. Under the race detector, which makes all slow, it leaves out pages and smaller
// boundaries.
func Ranges(size uint64) (list []Range) {
	places := map[uint64]bool{0: true, size: true, size / 2: true, size / 3: true}
	steps := []uint64{64 << 10, 1, 32, 4096}
	if testmode.Races() {
		steps = steps[:1]
	}
	for _, step := range steps {
		for _, place := range []uint64{step - 1, step, step + 1, size - min(size, step)} {
			places[min(place, size)] = true
		}
	}
	rng := rand.New(rand.NewPCG(3, size))
	for range 3 {
		places[rng.Uint64N(size+1)] = true
	}
	for off := range places {
		for end := range places {
			if off <= end {
				list = append(list, Range{off, end - off})
			}
		}
	}
	return list
}
