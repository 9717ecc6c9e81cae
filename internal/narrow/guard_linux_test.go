package narrow

import (
	"runtime/debug"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// TestBounds puts source and destination of every kernel directly after and directly before an unreadable page, so that
// an access outside them faults.
func TestBounds(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	out, numbers := kerneltest.Guarded[byte](t), kerneltest.Guarded[float32](t)
	copy(numbers, floats(len(numbers)))
	eachKernel(t, func(name string, k kernel, portable func(dst []byte, src []float32)) {
		if k.run == nil {
			return
		}
		for n := k.step; n <= 3*k.step; n += k.step {
			want := make([]byte, 2*n)
			for _, src := range kerneltest.Ends(numbers, n) {
				portable(want, src)
				for _, dst := range kerneltest.Ends(out, 2*n) {
					k.run(dst, src)
					if i := kerneltest.FirstDifference(dst, want); i >= 0 {
						t.Fatalf("%s: %d floats: byte %d is %#x, want %#x", name, n, i, dst[i], want[i])
					}
				}
			}
		}
	})
}
