package loader

import "github.com/tensormap/tensormap/layout/crcmath"

func combineCRC32(a, b, powB uint32) uint32 { return crcmath.Combine(a, b, powB) }

func xPow8(n uint64) uint32 { return crcmath.XPow8(n) }
