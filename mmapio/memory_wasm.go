package mmapio

// Memory is what WebAssembly's addresses reach: how much of it there is, nobody tells.
func Memory() uint64 { return 4 << 30 }
