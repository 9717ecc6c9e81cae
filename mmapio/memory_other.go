//go:build !linux && !darwin && !wasm

package mmapio

// Memory is the size of the machine's physical memory in bytes, or 0 where the platform
// does not tell.
func Memory() uint64 { return 0 }
