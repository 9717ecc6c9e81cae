package dequant

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestKernelReads puts the source directly after and directly before an unreadable page, so that
// a load outside it faults.
func TestKernelReads(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	copy(m, randomBytes(rand.New(rand.NewPCG(11, 11)), len(m)))
	for _, at := range []int{0, 2 * page} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	middle := m[page : 2*page]
	eachKernel(t, func(t *testing.T, d layout.DType, k kernel) {
		debug.SetPanicOnFault(true)
		elems, size, step := d.BlockElems(), d.BlockBytes(), max(1, k.step)
		for n := step; n*size <= page && n <= max(160/elems, 3*step); n += step {
			for _, src := range [][]byte{middle[:n*size], middle[page-n*size:]} {
				dst := aligned64(n*elems, 0)
				k.call(dst, src)
				if i := differ(d, dst, reference(d, src)); i >= 0 {
					t.Fatalf("%d blocks: element %d is %v", n, i, dst[i])
				}
			}
		}
	})
}

// TestParallelFault has both the caller, who has called SetPanicOnFault, and a worker read an
// unmapped page: neither goes on before both are about to.
func TestParallelFault(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const n = parallelMin
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	eachLevel(t, func(t *testing.T) {
		real := active.expand[layout.I8]
		var both sync.WaitGroup
		both.Add(2)
		meeting := new(impl)
		meeting.expand[layout.I8] = kernel{step: real.step, run: func(dst []float32, src []byte) {
			both.Done()
			both.Wait()
			real.run(dst, src)
		}}
		use(t, meeting)
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			fault, ok := recover().(interface{ Addr() uintptr })
			if !ok || fault.Addr() == 0 {
				t.Errorf("recovered %v, want a fault with an address", fault)
			}
		}()
		ExpandParallel(layout.I8, make([]float32, n), m)
		t.Error("no fault")
	})
}
