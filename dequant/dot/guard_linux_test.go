package dot

import (
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// eachKernel runs f for every type and level that has a kernel for it.
func eachKernel(t *testing.T, f func(t *testing.T, d layout.DType)) {
	for _, l := range levels {
		for _, d := range types {
			if l.quantized[d].one != nil || l.plain[d] != nil {
				t.Run(l.name+"/"+d.String(), func(t *testing.T) {
					use(t, l)
					f(t, d)
				})
			}
		}
	}
}

// TestKernelReads puts rows directly after and directly before an unreadable page, so that a load
// outside them faults.
func TestKernelReads(t *testing.T) {
	middle := kerneltest.Guarded[byte](t)
	eachKernel(t, func(t *testing.T, d layout.DType) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		rng := rand.New(rand.NewPCG(11, 11))
		step := max(d.BlockElems(), lanes)
		for n := step; n <= 12*step; n += step {
			size := int(rowBytes(d, n))
			for rows := 1; rows <= 2 && rows*size <= len(middle); rows++ {
				a, err := Prepare(d, randomVector(rng, n))
				if err != nil {
					t.Fatal(err)
				}
				src := randomRows(rng, d, rows*n/d.BlockElems())
				for _, at := range []int{0, len(middle) - len(src)} {
					in := middle[at:][:len(src)]
					copy(in, src)
					sameAsGeneric(t, "guarded", d, in, rows, a)
				}
			}
		}
	})
}

// TestKernelFaults has every kernel run into an unreadable page, each time in a new goroutine and
// another distance from the end of its stack, as package dequant's test of this name does.
func TestKernelFaults(t *testing.T) {
	middle := kerneltest.Guarded[byte](t)
	eachKernel(t, func(t *testing.T, d layout.DType) {
		n := 9 * max(d.BlockElems(), lanes)
		size := int(rowBytes(d, n))
		a, err := Prepare(d, make([]float32, n))
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, 1)
		grown := 0
		for depth := range 48 {
			var fault, grew bool
			var wg sync.WaitGroup
			wg.Go(func() {
				fault, grew = kerneltest.At(depth, func() {
					first := unsafe.SliceData(middle[len(middle)-min(size-1, depth%2*size/2+1):])
					if depth%4 < 2 || active.quantized[d].many == nil {
						multiply(dst, d, unsafe.Slice(first, size), a)
					} else if err := Mat([][]float32{dst, dst}, d, unsafe.Slice(first, size), []*Activation{a, a}); err != nil {
						t.Error(err)
					}
				})
			})
			if wg.Wait(); !fault {
				t.Fatal("no fault")
			}
			if grew {
				grown++
			}
		}
		if grown == 0 {
			t.Fatal("no stack had to grow")
		}
	})
}
