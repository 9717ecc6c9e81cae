package layouttest

import (
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// Bound limits the memory that a file may cost: some bytes for each of its own, and some more.
type Bound struct {
	PerByte, Fixed uint64
}

// Check makes sure that do keeps to b. It works on a file or an index of size bytes. The race detector has slices.Grow
// take its memory twice, so twice as much is allowed then.
func (b Bound) Check(t testing.TB, what string, size int, do func()) {
	t.Helper()
	got, limit := Allocated(do), b.PerByte*uint64(size)+b.Fixed
	if testmode.Races() {
		limit *= 2
	}
	if got > limit {
		t.Errorf("%s: %d bytes made it allocate %d, more than %d", what, size, got, limit)
	}
}

// Allocated returns the number of bytes of heap that do takes, freed or not.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
