package mmapio

// Memory returns the size of WebAssembly's address space: nobody tells how much memory there is.
func Memory() uint64 { return 4 << 30 }
