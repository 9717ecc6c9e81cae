package dot

import (
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/layout"
)

// guarded returns the middle one of three pages. The others cannot be read.
func guarded(t *testing.T) []byte {
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	for _, at := range []int{0, 2 * page} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page : 2*page]
}

// eachKernel runs f for every type and level that has a kernel for it.
func eachKernel(t *testing.T, f func(t *testing.T, d layout.DType)) {
	for _, l := range levels {
		for _, d := range types {
			if l.quantized[d] != nil || l.plain[d] != nil {
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
	middle := guarded(t)
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
	middle := guarded(t)
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
				fault, grew = faultsAt(depth, func() {
					first := unsafe.SliceData(middle[len(middle)-min(size-1, depth%2*size/2+1):])
					multiply(dst, d, unsafe.Slice(first, size), a)
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

// faultsAt calls f so many frames deep. It reports whether f reads lost memory, and whether the
// stack has grown since.
//
//go:noinline
func faultsAt(depth int, f func()) (fault, grew bool) {
	var mark [40]byte
	if depth > 0 {
		mark[depth%len(mark)] = 1 // a frame that is not optimized away
		fault, grew = faultsAt(depth-1, f)
		return fault && mark[depth%len(mark)] == 1, grew
	}
	debug.SetPanicOnFault(true)
	before := place(&mark)
	defer func() {
		_, fault = recover().(interface{ Addr() uintptr })
		grew = place(&mark) != before
	}()
	f()
	return false, false
}

// place returns p as a number, which changes when the stack grows.
//
//go:nocheckptr
func place(p *[40]byte) uintptr { return uintptr(unsafe.Pointer(p)) }
