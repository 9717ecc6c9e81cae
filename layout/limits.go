package layout

import (
	"cmp"
	"math"
)

// MaxRecords is how many tensors or nodes a file may have in the formats TSM, BW2L and April. One takes as few as 5 bytes of the file,
// and 100 to 400 bytes of memory. Real files have thousands.
const MaxRecords = 1 << 17

// Limits caps what a decoder accepts, so that a hostile file costs no more than the
// user allows. A nil *Limits, and every zero field, means the default named next to it.
type Limits struct {
	HeaderBytes uint64 // tensor descriptions and metadata: 100,000,000, the SafeTensors cap
	Tensors     uint64 // tensors in one file: 16,777,216; 2,147,483,647 at most
	NameBytes   uint64 // one tensor name: 65,535, the most that APR2 can hold
	Rank        uint64 // dimensions of one tensor: 64
	Depth       uint64 // nesting of JSON: 64
	Argon2KiB   uint64 // memory that deriving a key from a passphrase may take, in KiB: 262,144. Memory times passes may be four times that
}

var defaultLimits = Limits{
	HeaderBytes: 100_000_000,
	Tensors:     1 << 24,
	NameBytes:   1<<16 - 1,
	Rank:        64,
	Depth:       64,
	Argon2KiB:   256 << 10,
}

// WithDefaults returns a copy of l with every zero field replaced by its default. A nil l is all
// zeros.
func (l *Limits) WithDefaults() Limits {
	if l == nil {
		return defaultLimits
	}
	out, d := *l, &defaultLimits
	out.HeaderBytes = cmp.Or(l.HeaderBytes, d.HeaderBytes)
	out.Tensors = min(cmp.Or(l.Tensors, d.Tensors), math.MaxInt32) // Names has 32 bits for an index
	out.NameBytes = cmp.Or(l.NameBytes, d.NameBytes)
	out.Rank = cmp.Or(l.Rank, d.Rank)
	out.Depth = cmp.Or(l.Depth, d.Depth)
	out.Argon2KiB = cmp.Or(l.Argon2KiB, d.Argon2KiB)
	return out
}
