package mmapio

import (
	"runtime"
	"runtime/debug"
	"sync"
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
func Guard(f func() error) error {
	return guard(f, locate)
}

// guard does what Guard does, with locate in place of what knows the mappings. locate turns
// a fault's address into an error, or nil for an address that is none of its business.
func guard(f func() error, locate func(addr uintptr) error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if v := recover(); v != nil {
			err = faultOrPanic(v, locate)
		}
	}()
	return f()
}

// faultOrPanic tells faults from other panics by the Addr method that
// debug.SetPanicOnFault promises.
func faultOrPanic(v any, locate func(addr uintptr) error) error {
	fault, ok := v.(interface {
		runtime.Error
		Addr() uintptr
	})
	if ok {
		if err := locate(fault.Addr()); err != nil {
			return err
		}
	}
	panic(v)
}

// mappings has the extent of each live one, by the address of its first byte. It is consulted only after a fault.
var mappings sync.Map

type extent struct {
	size uintptr
	path string
}

func locate(addr uintptr) (err error) {
	mappings.Range(func(base, e any) bool {
		at, of := addr-base.(uintptr), e.(extent)
		if at < of.size { // which no address before the base is
			err = &FaultError{Offset: uint64(at), Path: of.path, Err: ErrFault}
		}
		return err == nil
	})
	return err
}
