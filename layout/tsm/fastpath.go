package tsm

import (
	"encoding/binary"
	"math/bits"

	"github.com/tensormap/tensormap/layout/internal/ascii"
	"github.com/tensormap/tensormap/layout/internal/doubling"
)

const (
	fastBytes = 128 // how far ahead fastParam looks
	fastDims  = 4   // and how many dimensions it takes
)

// The bytes before the value of #name and #op and its length: one field, CHAR8, one
// dimension. Comparing with constants takes an instruction or two.
const (
	beforeName = "\x05\x00\x00\x00#name\x01\x00\x00\x00\x0d\x01\x00\x00\x00"
	beforeOp   = "\x03\x00\x00\x00#op\x01\x00\x00\x00\x0d\x01\x00\x00\x00"
)

// fastParam reads nearly all params: the node's name or operator, or a short
// name with one field, few dimensions and some bytes. It leaves anything else, errors included,
// unread and returns false: the code that reads all params takes over. It exists for speed alone.
func (s *scanner) fastParam(n *node, extra *notes, seen *paramSet) bool {
	b := s.Peek("name", fastBytes)
	switch {
	case len(b) < minParam+minTensor || s.fastDims < 0:
		return false
	case len(b) >= len(beforeName)+4 && string(b[:len(beforeName)]) == beforeName:
		value := s.fastText(n, nameParam, b[len(beforeName):])
		if value == nil {
			return false
		}
		n.name = s.m.addText(value)
		s.Skip("#name", uint64(len(beforeName)+4+len(value)))
		return true
	case len(b) >= len(beforeOp)+4 && string(b[:len(beforeOp)]) == beforeOp:
		if extra.op = s.fastText(n, opParam, b[len(beforeOp):]); extra.op == nil {
			return false
		}
		s.Skip("#op", uint64(len(beforeOp)+4+len(extra.op)))
		return true
	}
	return s.fastTensor(b, seen)
}

// fastText returns the text at the start of b, behind its length, or nil.
func (s *scanner) fastText(n *node, which special, b []byte) []byte {
	size := uint64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; size > min(uint64(len(b)), s.lim.NameBytes) || n.stated.has(which) || !ascii.Plain(b[:size]) {
		return nil
	}
	n.stated |= 1 << which
	return b[:size:size]
}

// fastTensor reads a param that is a tensor. b starts with its description.
func (s *scanner) fastTensor(b []byte, seen *paramSet) bool {
	size := binary.LittleEndian.Uint32(b)
	if size > maxParamName || minParam+minTensor+int(size) > len(b) {
		return false
	}
	name, fields, tensor := b[4:4+size:4+size], b[4+size:], b[8+size:]
	dims := binary.LittleEndian.Uint32(tensor[1:])
	if binary.LittleEndian.Uint32(fields) != 1 || dims > uint32(s.fastDims) || !ascii.Plain(name) || specialNamed(name) != notSpecial {
		return false
	}
	head := minParam + minTensor + int(size+4*dims)
	if head > len(b) {
		return false
	}
	shape := tensor[minTensor : minTensor+4*dims]
	f := field{offset: s.Offset() + uint64(head), rank: dims, dtype: dtypeOf(uint32(tensor[0]))}
	f.stored = fastSize(f.dtype.BlockBytes(), shape)
	if f.stored == 0 || f.stored > s.Left()-uint64(head) {
		return false
	}
	if uint64(len(s.m.fields)) >= s.lim.Tensors || !seen.add(name) {
		return false
	}
	s.shape(0, shape) // no dimension is negative
	s.m.params = doubling.Append(s.m.params, param{s.m.addText(name), 1})
	s.m.fields = doubling.Append(s.m.fields, f)
	s.Skip("memory", uint64(head))
	s.memory(f.stored)
	return true
}

// fastSize returns the number of bytes of a tensor, or 0 if fastTensor does not take it.
func fastSize(each int, shape []byte) uint64 {
	size := uint64(each)
	for ; len(shape) >= 4; shape = shape[4:] {
		dim := binary.LittleEndian.Uint32(shape)
		hi, lo := bits.Mul64(size, uint64(dim))
		if int32(dim) < 0 || hi != 0 {
			return 0
		}
		size = lo
	}
	return size
}
