package tsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// module is all that a file says but the tensors' bytes. Its slices are of the input.
type module struct {
	fake            int32
	data            []byte
	inputs, outputs indexes
	nodes           list[node]
	params          list[param] // of one node after the other
	fields          list[field] // of one param after the other
	notes           list[notes] // of the nodes; empty where nobody asked
	end             uint64      // where the module ends
}

// node is what an index needs to know of a node.
type node struct {
	name   []byte
	inputs indexes
	params int32
	stated stated
	named  bool // that its tensors are called after name
}

// notes are what else a node says of itself.
type notes struct {
	at        uint64
	op, shape []byte // values of the special params
	dtype     layout.DType
	outputs   int32
}

// stated is a set of special params.
type stated uint8

func (s stated) has(which special) bool { return s>>which&1 != 0 }

// param is a param that is not special: a packed tensor.
type param struct {
	name   []byte
	fields int
}

// field is a tensor of a packed tensor.
type field struct {
	offset, stored uint64 // of its memory
	shape          []uint64
	dtype          layout.DType
}

// at is where the tensor starts.
func (f *field) at() uint64 { return f.offset - minTensor - 4*uint64(len(f.shape)) }

// indexes are positions in the graph's nodes.
type indexes struct {
	at uint64 // of the first one
	b  []byte
}

func (x indexes) len() int { return len(x.b) / minIndex }

// get is what stands at place i; it is a node's once check has passed.
func (x indexes) get(i int) int { return int(int32(binary.LittleEndian.Uint32(x.b[minIndex*i:]))) }

// scanner reads a module from front to back, stepping over the tensors' bytes.
type scanner struct {
	layout.Cursor
	lim       layout.Limits
	m         *module
	keep      bool     // that notes are asked for
	spare     *notes   // what they are written to
	dims      []uint64 // room for shapes
	usualDims uint32   // the most that usualParam takes
	node      int      // that is being read, or -1
	param     []byte   // that is being read
}

// scan reads a module and makes sure of all that can be said without looking at two nodes
// at once, and that indexes are those of nodes.
func scan(in layout.Input, lim layout.Limits, keep bool) (*module, error) {
	s := scanner{Cursor: layout.NewCursor(in, layout.TSM, 0, in.Size()), lim: lim, m: new(module), keep: keep, spare: new(notes), node: -1}
	s.usualDims = uint32(min(usualDims, lim.Rank))
	s.header()
	s.m.inputs = s.indexes("inputs")
	s.m.outputs = s.indexes("outputs")
	s.graph()
	s.m.end = s.Offset()
	s.checkIndexes()
	return s.m, s.located()
}

// located is the error with the node and param it is about.
func (s *scanner) located() error {
	if s.node < 0 {
		return s.Err()
	}
	if e, ok := errors.AsType[*layout.FormatError](s.Err()); ok {
		where := fmt.Sprintf("node %d: ", s.node)
		if s.param != nil {
			where = fmt.Sprintf("node %d, param %s: ", s.node, layout.Quote(s.param))
		}
		e.Reason = where + e.Reason
	}
	return s.Err()
}

func (s *scanner) header() {
	s.m.fake = s.I32("fake")
	code := s.U32("code")
	switch {
	case s.Err() != nil || code == moduleCode:
	case s.m.fake == moduleCode:
		s.Fail(0, "fake", layout.ErrUnsupported, "%#x: a .sta container of TenniS, not a module, which has this number as its code at 4", moduleCode)
	default:
		s.Fail(4, "code", layout.ErrInvalid, "%#x, not %#x", code, moduleCode)
	}
	s.m.data = s.Take("data", headerSize-8)
}

// count reads the number of records of at least size bytes that follow.
func (s *scanner) count(name string, size uint64) int {
	at := s.Offset()
	n := s.I32(name)
	if n < 0 {
		s.Fail(at, name, layout.ErrInvalid, "%d records", n)
	}
	if n <= 0 || !s.Fits(at, name, uint64(n), size) {
		return 0
	}
	return int(n)
}

func (s *scanner) indexes(name string) indexes {
	n := s.count(name, minIndex)
	return indexes{s.Offset(), s.Take(name, minIndex*uint64(n))}
}

func (s *scanner) graph() {
	n := s.count("graph", minNode)
	for s.node+1 < n && s.Err() == nil {
		s.node++
		s.readNode()
	}
	if s.Err() == nil {
		s.node = -1
	}
}

func (s *scanner) readNode() {
	n := s.m.nodes.add()
	extra := s.newNotes()
	count := s.count("bubble", minParam)
	seen := paramSet{m: s.m, first: s.m.params.n, most: count}
	for range count {
		if !s.usualParam(n, extra, &seen) {
			s.anyParam(n, extra, &seen)
		}
		if s.Err() != nil {
			return
		}
	}
	s.param = nil
	n.params = int32(s.m.params.n - seen.first)
	n.inputs = s.indexes("inputs")
}

// newNotes are those of the node that is being read.
func (s *scanner) newNotes() *notes {
	if s.keep {
		s.spare = s.m.notes.add()
	}
	s.spare.at = s.Offset()
	return s.spare
}

func (s *scanner) anyParam(n *node, extra *notes, seen *paramSet) {
	at := s.Offset()
	s.param = s.name()
	which := specialNamed(s.param)
	switch {
	case s.Err() != nil:
	case which == notSpecial && seen.add(s.param):
		s.packedTensor()
	case which != notSpecial && !n.stated.has(which):
		n.stated |= 1 << which
		s.special(n, extra, which)
	default:
		s.Fail(at, "name", layout.ErrDuplicate, "the node has two params of this name")
	}
}

// name reads the name of a param.
func (s *scanner) name() []byte {
	at := s.Offset()
	n := s.count("name", 1)
	if n > longestParamName {
		s.Fail(at, "name", layout.ErrLimit, "%d bytes, more than %d", n, longestParamName)
	}
	b := s.Take("name", uint64(n))
	s.text(at, "name", b)
	return b
}

// text fails where b, the value of field at at, is not text.
func (s *scanner) text(at uint64, field string, b []byte) {
	switch {
	case plainASCII(b):
	case !utf8.Valid(b):
		s.Fail(at, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(b))
	case bytes.IndexByte(b, 0) >= 0:
		s.Fail(at, field, layout.ErrInvalid, "%s holds a NUL byte", layout.Quote(b))
	}
}

func (s *scanner) packedTensor() {
	n := s.count("packed_tensor", minTensor)
	p := s.m.params.add()
	p.name, p.fields = s.param, n
	for range n {
		if s.full(); s.Err() == nil {
			f := s.prototype()
			s.Skip("memory", f.stored)
			*s.m.fields.add() = f
		}
	}
}

// full fails where the module has as many tensors as it may.
func (s *scanner) full() {
	if uint64(s.m.fields.n) >= s.lim.Tensors {
		s.Fail(s.Offset(), "packed_tensor", layout.ErrLimit, "more than %d tensors", s.lim.Tensors)
	}
}

// prototype reads what stands before a tensor's bytes.
func (s *scanner) prototype() field {
	var f field
	start := s.Offset()
	id := s.U8("dtype")
	if f.dtype = dtypeOf(uint32(id)); f.dtype == layout.Invalid {
		s.Fail(start, "dtype", layout.ErrUnsupported, "%s", unknownDType(uint32(id)))
	}
	n := s.count("dims", minIndex)
	if uint64(n) > s.lim.Rank {
		s.Fail(start+1, "dims", layout.ErrLimit, "%d dimensions, more than %d", n, s.lim.Rank)
	}
	at := s.Offset()
	f.shape = s.shape(at, s.Take("shape", 4*uint64(n)))
	f.offset = s.Offset()
	if s.Err() != nil {
		return f
	}
	var err error
	if f.stored, err = f.dtype.Size(f.shape); err != nil {
		s.Fail(at, "shape", layout.ErrInvalid, "%v", err)
	}
	return f
}

func unknownDType(id uint32) string {
	if id == ptr {
		return "12 is PTR, an address, which says nothing in a file"
	}
	return fmt.Sprintf("%d is no known type", int32(id))
}

// shape decodes dimensions into memory that many shapes share.
func (s *scanner) shape(at uint64, b []byte) []uint64 {
	const block = 256
	n := len(b) / 4
	if s.dims == nil || n > cap(s.dims)-len(s.dims) { // a scalar's shape is empty and not nil
		s.dims = make([]uint64, 0, max(n, block))
	}
	from := len(s.dims)
	for i := range n {
		dim := int32(binary.LittleEndian.Uint32(b[4*i:]))
		if dim < 0 {
			s.Fail(at+4*uint64(i), "shape", layout.ErrInvalid, "dimension %d is %d", i, dim)
		}
		s.dims = append(s.dims, uint64(dim))
	}
	return s.dims[from:len(s.dims):len(s.dims)]
}

// special reads the value of a param that describes its node.
func (s *scanner) special(n *node, extra *notes, which special) {
	at := s.Offset()
	want := &specials[which]
	if count := s.count("packed_tensor", minTensor); count != 1 {
		s.Fail(at, "packed_tensor", layout.ErrInvalid, "%d fields, not 1", count)
	}
	f := s.prototype()
	if f.dtype != want.dtype || len(f.shape) > 1 || f.stored != uint64(want.dtype.BlockBytes()) && !want.list {
		s.Fail(f.at(), want.name, layout.ErrInvalid, "%s %v", f.dtype, f.shape)
	}
	if f.stored > s.lim.NameBytes {
		s.Fail(f.at(), want.name, layout.ErrLimit, "%d bytes, more than %d", f.stored, s.lim.NameBytes)
	}
	b := s.Take(want.name, f.stored)
	if s.Err() == nil {
		s.describe(n, extra, which, f.offset, b)
	}
}

// describe takes the value of a special param, which is at at.
func (s *scanner) describe(n *node, extra *notes, which special, at uint64, b []byte) {
	switch which {
	case nameParam:
		n.name = b
		s.text(at, "#name", b)
	case opParam:
		extra.op = b
		s.text(at, "#op", b)
	case shapeParam:
		extra.shape = b
		s.checkShape(at, b)
	case dtypeParam:
		id := binary.LittleEndian.Uint32(b)
		if extra.dtype = dtypeOf(id); extra.dtype == layout.Invalid {
			s.Fail(at, "#dtype", layout.ErrUnsupported, "%s", unknownDType(id))
		}
	case outputCountParam:
		extra.outputs = int32(binary.LittleEndian.Uint32(b))
	}
}

// checkShape looks for dimensions that are neither known nor -1, unknown.
func (s *scanner) checkShape(at uint64, b []byte) {
	for i := 0; i < len(b); i += 4 {
		if dim := int32(binary.LittleEndian.Uint32(b[i:])); dim < -1 {
			s.Fail(at+uint64(i), "#shape", layout.ErrInvalid, "dimension %d is %d", i/4, dim)
		}
	}
}

// checkIndexes makes sure that indexes are those of nodes.
func (s *scanner) checkIndexes() {
	s.checkRange("inputs", s.m.inputs)
	s.checkRange("outputs", s.m.outputs)
	for i := range s.m.nodes.n {
		if s.Err() != nil {
			return
		}
		s.checkRange("inputs", s.m.nodes.at(i).inputs)
	}
}

func (s *scanner) checkRange(name string, x indexes) {
	for i := range x.len() {
		if v := x.get(i); uint(v) >= uint(s.m.nodes.n) {
			s.Fail(x.at+minIndex*uint64(i), name, layout.ErrInvalid, "index %d, but there are %d nodes", v, s.m.nodes.n)
			return
		}
	}
}
