package kerneltest

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// Guarded returns the numbers in the middle one of three pages. The other pages cannot be read.
func Guarded[E byte | float32](t *testing.T) []E {
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
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(&m[page])), page/int(unsafe.Sizeof(e)))
}

// At calls f depth frames deep. It reports whether f reads lost memory, and whether the
// stack has grown since.
//
//go:noinline
func At(depth int, f func()) (fault, grew bool) {
	var mark [40]byte
	if depth > 0 {
		mark[depth%len(mark)] = 1 // a frame that is not optimized away
		fault, grew = At(depth-1, f)
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
