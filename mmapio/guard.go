package mmapio

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Guard runs f and returns its error. The kernel cannot provide memory of a
// mapping whose file was truncated or whose disk failed. If f touches such
// memory, f stops there, and Guard returns a *FaultError with the file's path
// and the offset. Deferred calls of f run as in any panic.
//
// Every other panic, and runtime.Goexit, goes on unchanged: nil pointers,
// bounds, faults at addresses outside every open Mapping made by Map or
// MapFile (so a view used after Close, too). Without Guard the last kind ends
// the process. Under Guard it is a panic that callers may recover.
//
// A fault below C ends the process all the same, as does one in a DLL. So does one below assembly that calls from a
// frame without a pointer map: see "Assembly over a mapping" in the package's documentation.
//
// Guards nest. A Guard covers its own goroutine only: goroutines started by f
// need their own. The setting of debug.SetPanicOnFault is restored afterwards.
func Guard(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if v := recover(); v != nil {
			err = faultOrPanic(v)
		}
	}()
	return f()
}

// faults counts the panics that became errors.
var faults atomic.Uint64

// Faults returns how many faults of mappings Guard has turned into errors in this process so far.
func Faults() uint64 { return faults.Load() }

// faultOrPanic returns a *FaultError for v, a recovered panic, if v is a fault in an open mapping. A fault has the method Addr that
// debug.SetPanicOnFault promises. With any other v it panics again.
func faultOrPanic(v any) (err error) {
	fault, ok := v.(interface {
		runtime.Error
		Addr() uintptr
	})
	if ok {
		mappings.Range(func(base, e any) bool {
			at, of := fault.Addr()-base.(uintptr), e.(extent)
			if at < of.size { // which no address before the base is
				err = &FaultError{Offset: uint64(at), Path: of.path, Err: ErrFault}
			}
			return err == nil
		})
	}
	if err == nil {
		panic(v)
	}
	faults.Add(1)
	return err
}

// mappings has the extent of each live one, by the address of its first byte. It is consulted only after a fault.
var mappings sync.Map

// extent is the length of a mapping in bytes, and its file.
type extent struct {
	size uintptr
	path string
}
