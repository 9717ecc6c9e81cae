package dequant

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// TestKernelReads puts the source directly after and directly before an unreadable page, so that
// a load outside it faults.
func TestKernelReads(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	middle := kerneltest.Guarded[byte](t)
	page := len(middle)
	copy(middle, randomBytes(rand.New(rand.NewPCG(11, 11)), page))
	eachKernel(t, func(t *testing.T, d layout.DType, k kernel) {
		debug.SetPanicOnFault(true)
		elems, size, step := d.BlockElems(), d.BlockBytes(), max(1, k.step)
		for n := step; n*size <= page && n <= max(160/elems, 3*step); n += step {
			for _, src := range [][]byte{middle[:n*size], middle[page-n*size:]} {
				dst := kerneltest.Aligned(n*elems, 0)
				k.call(dst, src)
				if i := differ(d, dst, reference(d, src)); i >= 0 {
					t.Fatalf("%d blocks: element %d is %v", n, i, dst[i])
				}
			}
		}
	})
}

// TestScaledBounds puts source and destination beside unreadable pages for the kernels of scaled integers.
func TestScaledBounds(t *testing.T) {
	numbers, in := kerneltest.Guarded[float32](t), kerneltest.Guarded[byte](t)
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
					for _, src := range kerneltest.Ends(in, n*size) {
						if err := expandScaledExactly(d, want, src, 0.37, -5); err != nil {
							t.Fatal(err)
						}
						for _, dst := range kerneltest.Ends(numbers, n) {
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

// TestParallelFault has both the caller, who has called SetPanicOnFault, and a worker read an
// unmapped page: neither goes on before both are about to.
func TestParallelFault(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const n = simd.ParallelMin
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
		plain(layout.I8).Expand(make([]float32, n), m, 0, AllCores)
		t.Error("no fault")
	})
}

// TestKernelFaults has every kernel run into an unreadable page, each time in a new goroutine
// and another distance from the end of its stack: the runtime grows the stack for the panic,
// and ends the process if it cannot, as below a frame of assembly that it has no map of.
func TestKernelFaults(t *testing.T) {
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	if err := syscall.Mprotect(m[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	faults := func(name string, f func()) {
		grown := 0
		for depth := range 48 {
			var fault, grew bool
			var wg sync.WaitGroup
			wg.Go(func() { fault, grew = kerneltest.At(depth, f) })
			if wg.Wait(); !fault {
				t.Fatalf("%s: no fault", name)
			}
			if grew {
				grown++
			}
		}
		if grown == 0 {
			t.Fatalf("%s: no stack had to grow", name)
		}
	}
	dst := kerneltest.Aligned(2*page, 0)
	for _, l := range levels {
		for _, d := range types {
			elems, size := d.BlockElems(), d.BlockBytes()
			for name, k := range l.variants(d) {
				n := simd.WholeSteps(page/max(elems, size), k.step)
				for _, kept := range []int{0, size + 1} { // of what is read
					faults(name, func() { k.call(dst[:n*elems], m[page-kept:][:n*size]) })
				}
			}
			if k := l.scaled[d]; k.run != nil {
				n := simd.WholeSteps(page/size, k.step)
				faults(l.name+"/scaled/"+d.String(), func() { k.run(dst[:n*elems], m[page-size:][:n*size], 0.5, 1) })
			}
			runtime.GC()
		}
		for kind, k := range l.grouped {
			c := kind
			if biased < kind && kind <= 2*biased {
				c -= biased
			}
			for name, run := range map[string]func([]float32, []byte, []float32, []float32, int){"run": k.run, "stream": k.stream} {
				const group = 256
				size := group / 8 * layout.Code(c).Bits()
				for _, kept := range []int{0, size + 1} {
					if run != nil {
						faults(fmt.Sprint(l.name, "/", name, "/", kind), func() { run(dst[:2*group], m[page-kept:][:2*size], unit[:], noOffset[:], group) })
					}
				}
			}
		}
		if turn := l.transpose; turn.words != nil {
			tile := make([]byte, 64<<10)
			faults(l.name+"/words", func() { turn.words(tile, 256, m[page-65:], 64, 8, 8) })
			faults(l.name+"/nibbles", func() { turn.nibbles(tile, 256, 4096, m[page-65:], 64, 8, 8) })
		}
	}
}

// TestGroupKernelReads puts the codes directly before and after an unreadable page.
func TestGroupKernelReads(t *testing.T) {
	middle := kerneltest.Guarded[byte](t)
	page := len(middle)
	copy(middle, randomBytes(rand.New(rand.NewPCG(27, 27)), page))
	eachGroupKernel(t, func(t *testing.T, c, kind int, k groupKernel) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		run := k.run
		if k.stream != nil {
			run = k.stream
		}
		for groups := 2; groups <= 6; groups += 2 {
			for _, group := range []int{16, 32, 96} {
				if group%k.step != 0 && !(group == 16 && k.takesPairs) {
					continue
				}
				size := groups * group / 8 * layout.Code(c).Bits()
				for _, src := range [][]byte{middle[:size], middle[page-size:]} {
					got, want := kerneltest.Aligned(groups*group, 0), make([]float32, groups*group)
					run(got, src, unit[:], noOffset[:], group)
					generic.grouped[kind].run(want, src, unit[:], noOffset[:], group)
					if i := differ(layout.Q8_0, got, want); i >= 0 {
						t.Fatalf("%d groups of %d: element %d is %v", groups, group, i, got[i])
					}
				}
			}
		}
	})
	for _, l := range levels {
		if turn := l.transpose; turn.words != nil {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			tile := make([]byte, 64<<10)
			for _, stride := range []int{32, 96} {
				size := 15*stride + 32
				for _, src := range [][]byte{middle[:size], middle[page-size:]} {
					turn.words(tile, 256, src, stride, 16, 8)
					turn.nibbles(tile, 256, 4096, src, stride, 16, 8)
				}
			}
		}
	}
}
