package layout

import "math/bits"

// Input is a file as a decoder sees it: bytes at offsets. A mapped file returns slices of the
// mapping. A remote one fetches the bytes asked for and no others.
type Input interface {
	// Size is the length of the whole file in bytes.
	Size() uint64
	// Slice returns the n bytes at off, which the caller must not write to. It fails if
	// they leave the file or cannot be read.
	Slice(off, n uint64) ([]byte, error)
}

// Bytes is a whole file in memory.
type Bytes []byte

// Size returns the number of bytes.
func (b Bytes) Size() uint64 { return uint64(len(b)) }

// Slice returns a part of b, capped so that appending to the result cannot write into b.
func (b Bytes) Slice(off, n uint64) ([]byte, error) {
	if !Within(off, n, uint64(len(b))) {
		return nil, ErrTruncated
	}
	return b[off : off+n : off+n], nil
}

// Within reports whether n bytes at off lie inside size bytes. No sum can overflow.
func Within(off, n, size uint64) bool { return off <= size && n <= size-off }

// AddOffset returns base+off, or 2^64-1 if that is less: no file reaches so far.
func AddOffset(base, off uint64) uint64 {
	sum, carry := bits.Add64(base, off, 0)
	return sum | -carry
}

// Region reads the n bytes at off. If they leave the file, the error names field, which the file
// states at offset at.
func Region(in Input, f Format, at uint64, field string, off, n uint64) ([]byte, error) {
	if size := in.Size(); !Within(off, n, size) {
		return nil, Errorf(f, at, field, ErrTruncated, "%d bytes at %d leave the file of %d bytes", n, off, size)
	}
	b, err := in.Slice(off, n)
	if err != nil {
		return nil, &FormatError{Format: f, Offset: off, Field: field, Reason: "cannot be read", Err: err}
	}
	return b, nil
}

// LimitedRegion reads as Region does, but at most limit bytes. More is ErrLimit.
func LimitedRegion(in Input, f Format, at uint64, field string, off, n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, Errorf(f, at, field, ErrLimit, "%d bytes, more than %d", n, limit)
	}
	return Region(in, f, at, field, off, n)
}
