//go:build linux

package quantize

import (
	"runtime/debug"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// TestEncoderBounds puts source and destination of every encoder directly after and directly
// before an unreadable page, so that an access outside them faults.
func TestEncoderBounds(t *testing.T) {
	out, numbers := kerneltest.Guarded[byte](t), kerneltest.Guarded[float32](t)
	all := floats(20_000)
	copy(numbers, all[len(all)-len(numbers):])
	for _, l := range levels {
		for _, d := range types {
			e := l.encoderOf(d)
			if e.run == nil {
				continue
			}
			t.Run(l.name+"/"+d.String(), func(t *testing.T) {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				elems, size, step := d.BlockElems(), d.BlockBytes(), max(1, e.step)
				for n := step; n <= max(160/elems, 3*step); n += step {
					want := make([]byte, n*size)
					for _, src := range kerneltest.Ends(numbers, n*elems) {
						encodeGeneric(d, want, src)
						for _, dst := range kerneltest.Ends(out, n*size) {
							e.run(dst, src)
							if i := kerneltest.FirstDifference(dst, want); i >= 0 {
								t.Fatalf("%d blocks: byte %d is %#x, want %#x", n, i, dst[i], want[i])
							}
						}
					}
				}
			})
		}
	}
}
