//go:build linux

package dequant

import (
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/dequant/internal/faulttest"
	"github.com/tensormap/tensormap/layout"
)

// ends are the first and the last n elements of s.
func ends[E any](s []E, n int) [2][]E { return [2][]E{s[:n], s[len(s)-n:]} }

// TestEncoderBounds puts source and destination of every encoder directly after and directly
// before an unreadable page, so that an access outside them faults.
func TestEncoderBounds(t *testing.T) {
	out, in := faulttest.Guarded(t), faulttest.Guarded(t)
	numbers := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(in))), len(in)/4)
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
					for _, src := range ends(numbers, n*elems) {
						encodeGeneric(d, want, src)
						for _, dst := range ends(out, n*size) {
							e.run(dst, src)
							if i := firstDifference(dst, want); i >= 0 {
								t.Fatalf("%d blocks: byte %d is %#x, want %#x", n, i, dst[i], want[i])
							}
						}
					}
				}
			})
		}
	}
}

// TestScaledBounds does so with the kernels of scaled integers.
func TestScaledBounds(t *testing.T) {
	out, in := faulttest.Guarded(t), faulttest.Guarded(t)
	numbers := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(out))), len(out)/4)
	copy(in, randomBytes(rand.New(rand.NewPCG(15, 15)), len(in)))
	for _, l := range levels {
		for _, d := range types {
			k := l.scaled[d]
			if k.run == nil {
				continue
			}
			t.Run(l.name+"/"+d.String(), func(t *testing.T) {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				size, step := d.BlockBytes(), max(1, k.step)
				for n := step; n <= max(160, 3*step); n += step {
					want := make([]float32, n)
					for _, src := range ends(in, n*size) {
						if err := expandScaledExactly(d, want, src, 0.37, -5); err != nil {
							t.Fatal(err)
						}
						for _, dst := range ends(numbers, n) {
							k.run(dst, src, 0.37, -5)
							if i := differ(layout.F32, dst, want); i >= 0 {
								t.Fatalf("%d elements: element %d is %v, want %v", n, i, dst[i], want[i])
							}
						}
					}
				}
			})
		}
	}
}
