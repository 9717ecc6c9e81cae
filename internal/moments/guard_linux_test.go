package moments

import (
	"runtime/debug"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// TestBounds puts the numbers of every kernel directly after and directly before an unreadable page, so that an access outside
// them faults.
func TestBounds(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	x := kerneltest.Guarded[float32](t)
	eachLevel(t, func(name string) {
		for n := range 3*step + 1 {
			for _, a := range kerneltest.Ends(x, n) {
				for _, b := range kerneltest.Ends(x, n) {
					if PowersOf(a, 0, nil).Zeros != uint64(n) || PowersOf(a, 0, new(Codes)).Zeros != uint64(n) || PairsOf(a, b, 0).DD != 0 {
						t.Errorf("%s: %d numbers", name, n)
					}
				}
			}
		}
	})
}
