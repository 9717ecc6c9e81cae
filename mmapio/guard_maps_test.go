//go:build unix || windows

package mmapio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// truncated opens a file of five pages and loses what lies behind a page and a byte:
// pages 0 and 1 stay, 2 to 4 are lost.
func truncated(t testing.TB, open func(string) (*Mapping, error)) (m *Mapping, path string, content []byte) {
	t.Helper()
	page := os.Getpagesize()
	content = noise(5 * page)
	path = writeFile(t, content)
	m = must(t)(open(path))
	lose(t, m, path, page+1)
	return m, path, content
}

// checkFault wants err to be a FaultError for path at offset, or at the page
// that holds it on processors that report no more than that.
func checkFault(t *testing.T, err error, path string, offset int) {
	t.Helper()
	var fault *FaultError
	if !errors.As(err, &fault) || !errors.Is(err, ErrFault) {
		t.Errorf("error %v, want a FaultError", err)
		return
	}
	want := uint64(offset)
	if runtime.GOARCH == "s390x" {
		want = pageFloor(want)
		fault.Offset = pageFloor(fault.Offset)
	}
	if fault.Path != path || fault.Offset != want {
		t.Errorf("fault in %s at %d, want %s at %d", fault.Path, fault.Offset, path, want)
	}
	if prefix := fmt.Sprintf("%s: offset %d: ", path, want); !strings.HasPrefix(err.Error(), prefix) {
		t.Errorf("error %q, want prefix %q", err, prefix)
	}
}

func TestGuardTruncated(t *testing.T) {
	m, path, content := truncated(t, Map)
	page := os.Getpagesize()
	b := m.Bytes()
	before := Faults()
	for _, offset := range []int{2 * page, 2*page + 1, 3*page + 77, 5*page - 1} {
		ran := false
		err := Guard(func() error {
			defer func() { ran = true }()
			return fmt.Errorf("read %d", b[offset])
		})
		checkFault(t, err, path, offset)
		if !ran {
			t.Error("deferred calls did not run")
		}
	}
	if n := Faults() - before; n < 4 { // other tests run beside this one
		t.Errorf("%d faults are counted, want 4", n)
	}
	if err := Guard(func() error {
		if !bytes.Equal(b[:page+1], content[:page+1]) {
			return errors.New("the rest of the file changed")
		}
		if runtime.GOOS != "windows" && !bytes.Equal(b[page+1:2*page], make([]byte, page-1)) {
			return errors.New("beyond the new end, its page is not zero")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	// A typed view, and a fault in assembly (copy).
	v, err := View[float32](b)
	if err != nil {
		t.Fatal(err)
	}
	err = Guard(func() error { return fmt.Errorf("read %v", v[3*page/4]) })
	checkFault(t, err, path, 3*page)
	err = Guard(func() error { copy(make([]byte, page), b[4*page:]); return nil })
	checkFaultIn(t, err, path, 4*page, 5*page)
	checkFault(t, Guard(func() error { b[0] = 1; return nil }), path, 0) // read-only
}

// checkFaultIn is checkFault for code that reads a range in an order of its own.
func checkFaultIn(t *testing.T, err error, path string, lo, hi int) {
	t.Helper()
	var fault *FaultError
	if !errors.As(err, &fault) || fault.Path != path || fault.Offset < uint64(lo) || fault.Offset >= uint64(hi) {
		t.Errorf("error %v, want a fault in %s from %d to %d", err, path, lo, hi)
	}
}

func TestGuardNested(t *testing.T) {
	m, path, _ := truncated(t, Map)
	lost := 4 * os.Getpagesize()
	var inner error
	outer := Guard(func() error {
		inner = Guard(func() error { return fmt.Errorf("read %d", m.Bytes()[lost]) })
		return fmt.Errorf("read %d", m.Bytes()[lost+1])
	})
	checkFault(t, inner, path, lost)
	checkFault(t, outer, path, lost+1)
}

func TestGuardGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 2 {
		m, path, _ := truncated(t, Map)
		wg.Go(func() {
			for range 50 {
				offset := 3*os.Getpagesize() + i
				err := Guard(func() error { return fmt.Errorf("read %d", m.Bytes()[offset]) })
				checkFault(t, err, path, offset)
			}
		})
	}
	wg.Wait()
}

// TestGuardSmallStacks faults at every distance from the end of a new goroutine's stack, in Go and in assembly
// (copy). The panic needs room there, and on Windows what the system says of the fault does, too.
func TestGuardSmallStacks(t *testing.T) {
	m, path, _ := truncated(t, Map)
	b, lost := m.Bytes(), 3*os.Getpagesize()
	var deeper func(depth int, f func())
	deeper = func(depth int, f func()) {
		if depth == 0 {
			f()
			return
		}
		deeper(depth-1, f)
	}
	for depth := range 400 {
		for _, touch := range []func(){
			func() { noise(int(b[lost])) },
			func() { copy(make([]byte, 64), b[lost:]) },
		} {
			done := make(chan error)
			go func() { done <- Guard(func() error { deeper(depth, touch); return nil }) }()
			checkFaultIn(t, <-done, path, lost, lost+64)
		}
	}
}

// TestGuardLeavesOtherFaults faults outside every Mapping.
func TestGuardLeavesOtherFaults(t *testing.T) {
	b := protected(t, false)
	v := recovered(func() {
		Guard(func() error {
			return Guard(func() error { return fmt.Errorf("read %d", b[10]) })
		})
	})
	fault, ok := v.(interface{ Addr() uintptr })
	if !ok || pageFloor(uint64(fault.Addr())) != uint64(address(b)) {
		t.Errorf("panic value %#v, want the runtime's for %#x", v, address(b))
	}
}

func TestReadAtOfTruncatedFile(t *testing.T) {
	page := os.Getpagesize()
	m, path, content := truncated(t, Map)
	p := make([]byte, page)
	if n, err := m.ReadAt(p[:10], int64(page-9)); n != 10 || err != nil || !bytes.Equal(p[:10], content[page-9:page+1]) {
		t.Errorf("ReadAt of what is left: %d, %v", n, err)
	}
	n, err := m.ReadAt(p, int64(2*page-10))
	if n != 0 {
		t.Errorf("ReadAt across the end counts %d bytes", n)
	}
	checkFaultIn(t, err, path, 2*page, 3*page)
}

// TestReaderOnTruncatedFile: what is read by system calls is short, and no fault.
func TestReaderOnTruncatedFile(t *testing.T) {
	page := os.Getpagesize()
	m, path, content := truncated(t, OpenReader)
	p := make([]byte, page)
	n, err := m.ReadAt(p, int64(page-9))
	if n != 10 || !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(p[:n], content[page-9:page+1]) || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadAt across the end: %d, %v", n, err)
	}
	for _, r := range [][2]uint64{{uint64(3*page + 5), 100}, {0, m.Size()}} {
		if _, err := m.Slice(r[0], r[1]); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrFault) {
			t.Errorf("%d: %v", r, err)
		}
	}
}

// TestReadAtLeavesFaultsOfTheBuffer reads into memory that cannot be written.
func TestReadAtLeavesFaultsOfTheBuffer(t *testing.T) {
	b := protected(t, true)
	m := must(t)(Map(writeFile(t, noise(100))))
	if v := recovered(func() { m.ReadAt(b, 0) }); v == nil {
		t.Error("no panic")
	}
	if err := m.Close(); err != nil { // and no lock is left held
		t.Error(err)
	}
}

func TestPopulateTruncated(t *testing.T) {
	m, path, _ := truncated(t, Map)
	page := uint64(os.Getpagesize())
	if err := m.Populate(0, 2*page); err != nil {
		t.Errorf("what is left: %v", err)
	}
	checkFault(t, m.Populate(0, 5*page), path, int(2*page))
	checkFault(t, m.Populate(4*page+9, 1), path, int(4*page))
}
