//go:build !linux && !darwin && !wasm && !windows

package mmapio

// Memory returns the size of the machine's physical memory in bytes, or 0 if the platform
// does not tell.
func Memory() uint64 { return 0 }
