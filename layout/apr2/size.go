package apr2

import (
	"math/bits"

	"github.com/tensormap/tensormap/layout"
)

// Sizer works out how large a file will be, without its tensors' data and without making its
// head, so that a model can be divided among files before any is begun. The zero Sizer is of
// no use: see NewSizer.
type Sizer struct {
	head  uint64 // header, metadata and index
	data  uint64 // from data_offset to the end of the last tensor
	align uint64
}

// NewSizer is for a file without tensors. align is that of Options, metadata the number of
// bytes that the metadata takes as JSON.
func NewSizer(align int, metadata uint64) Sizer {
	s := Sizer{head: headerSize + indexHeaderSize, align: defaultAlign}
	if align == 32 {
		s.align = 32
	}
	return s.WithMetadata(metadata)
}

// WithMetadata is s with so many bytes more of metadata.
func (s Sizer) WithMetadata(n uint64) Sizer {
	s.head = add(s.head, n)
	return s
}

// With is s with one tensor more, of which Name, Shape, DType, Encoding and Stored count as
// they do for Create: of an LZ4 tensor of unknown size the raw bytes.
func (s Sizer) With(t *layout.Tensor) Sizer {
	n := t.Stored
	if !compressed(*t) {
		n, _ = t.DType.Size(dims(t)) // Create will say what is wrong with it
	}
	s.head = add(s.head, uint64(entrySize+len(t.Name)+8*len(dims(t))))
	s.data = add(up(s.data, s.align), n)
	return s
}

// Size is the size of the whole file in bytes, or 2^64-1 where it would be larger.
func (s Sizer) Size() uint64 { return add(add(up(s.head, defaultAlign), s.data), footerSize) }

// up is alignUp for sums that may be as large as they get.
func up(n, align uint64) uint64 { return add(n, -n%align) }

// add stops at the largest number.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}
