package gguf

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// swap says where numbers of several bytes stand in a block, or in an element.
type swap struct {
	bytes uint64   // of each number
	at    []uint64 // their offsets; nil if they fill the block
}

// swaps are the numbers in ggml's structs of blocks (ggml-common.h). All other fields are bytes.
var swaps = map[layout.DType]*swap{
	layout.Q4_0: {2, []uint64{0}}, layout.Q5_0: {2, []uint64{0}}, layout.Q8_0: {2, []uint64{0}}, layout.IQ4_NL: {2, []uint64{0}},
	layout.Q4_1: {2, []uint64{0, 2}}, layout.Q5_1: {2, []uint64{0, 2}},
	layout.Q2_K: {2, []uint64{80, 82}}, layout.Q3_K: {2, []uint64{108}}, layout.Q4_K: {2, []uint64{0, 2}},
	layout.Q5_K: {2, []uint64{0, 2}}, layout.Q6_K: {2, []uint64{208}}, layout.IQ4_XS: {2, []uint64{0, 2}},
	layout.TQ1_0: {2, []uint64{52}}, layout.TQ2_0: {2, []uint64{64}},
	layout.MXFP4: nil, layout.NVFP4: nil, // bytes alone
}

// noSwap stands for types whose big-endian form nobody has defined: words that ggml puts together of bytes.
var noSwap = &swap{}

// swapOf returns where elements of type d have numbers of several bytes: nil if they have none, noSwap if that is unknown.
func swapOf(d layout.DType) *swap {
	if s, ok := swaps[d]; ok {
		return s
	}
	switch n := uint64(d.BlockBytes()); {
	case d.BlockElems() != 1:
		return noSwap
	case n == 1:
		return nil
	default:
		return &swap{bytes: n}
	}
}

// Unpack writes the elements of t, which a big-endian file holds, in little-endian order. A type of blocks
// that keeps words among its codes, as IQ2_XS does, is ErrUnsupported.
func (f *File) Unpack(in layout.Input, t *layout.Tensor, dst []byte) error {
	s := swapOf(t.DType)
	switch {
	case t.Encoding != layout.Swapped || s == nil:
		return fmt.Errorf("%w: elements stored as %v", layout.ErrUnsupported, t.Encoding)
	case s == noSwap:
		return fmt.Errorf("%w: %v in a big-endian file", layout.ErrUnsupported, t.DType)
	}
	const step = 1 << 20
	block := uint64(t.DType.BlockBytes())
	for off := uint64(0); off < t.Raw; {
		n := min(step/block*block, t.Raw-off)
		b, err := layout.Region(in, layout.GGUF, t.Offset+off, "tensor", t.Offset+off, n)
		if err != nil {
			return err
		}
		to := dst[off : off+n]
		copy(to, b)
		s.reverse(to, block)
		off += n
	}
	return nil
}

// reverse reverses the bytes of each number in b, which holds whole blocks of the given size.
func (s *swap) reverse(b []byte, block uint64) {
	at := s.at
	if at == nil {
		at, block = []uint64{0}, s.bytes
	}
	for ; len(b) > 0; b = b[block:] {
		for _, at := range at {
			for i, j := at, at+s.bytes-1; i < j; i, j = i+1, j-1 {
				b[i], b[j] = b[j], b[i]
			}
		}
	}
}

// swapFilter returns what turns all numbers of t, which are given in little-endian order.
func swapFilter(t *layout.Tensor, _ int) *tensorwriter.Filter {
	s, block := swapOf(t.DType), uint64(t.DType.BlockBytes())
	if s == nil {
		return nil
	}
	return &tensorwriter.Filter{Blocks: 1, Block: (256 << 10) / block * block, Change: func(b []byte, n uint64) []byte {
		s.reverse(b[:n/block*block], block) // an incomplete block stays as it is: the file then refuses the size
		return b[:n]
	}}
}
