package main

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// libraryExpanders returns the expanders that a shared library has under ggml's names. It stays
// loaded.
func libraryExpanders(path string) ([]peer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	// Lazy, because a library may have been made of ggml's quantizations alone.
	lib := C.dlopen(name, C.RTLD_LAZY|C.RTLD_LOCAL)
	if lib == nil {
		return nil, fmt.Errorf("library: %s", C.GoString(C.dlerror()))
	}
	var peers []peer
	for d := layout.Invalid + 1; d.Valid(); d++ {
		if !d.Quantized() || !dequant.Supported(d) {
			continue
		}
		row := "dequantize_row_" + typeName(d)
		if f := symbol(lib, row); f != nil {
			peers = append(peers, expanderOf(f, d, row+" of "+filepath.Base(path)))
		}
	}
	if len(peers) == 0 {
		return nil, fmt.Errorf("library: %s has no dequantize_row_*", path)
	}
	return peers, nil
}

// symbol returns the address of a function of lib, or nil.
func symbol(lib unsafe.Pointer, name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(lib, s)
}
