package main

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*row)(const void *, void *, int64_t);
*/
import "C"

import (
	"fmt"
	"path/filepath"
	"strings"
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
		if f := symbol(lib, rowName(d)); f != nil {
			peers = append(peers, expander(d, rowName(d)+" of "+filepath.Base(path), C.row(f)))
		}
	}
	if len(peers) == 0 {
		return nil, fmt.Errorf("library: %s has no dequantize_row_*", path)
	}
	return peers, nil
}

func symbol(lib unsafe.Pointer, name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(lib, s)
}

// rowName returns ggml's name for its expansion of d: in lower case, except the K of Q2_K and the
// like.
func rowName(d layout.DType) string {
	name := strings.ToLower(d.String())
	if n, ok := strings.CutSuffix(name, "_k"); ok {
		name = n + "_K"
	}
	return "dequantize_row_" + name
}
