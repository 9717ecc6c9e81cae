package tsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// module has all that a file says but the tensors' bytes.
type module struct {
	fake            int32
	data            []byte
	inputs, outputs []int // positions in nodes
	nodes           []node
	tensors         int      // in all nodes
	params          int      // that are not special, in all nodes
	long            []uint64 // offsets of names of params of more than 31 bytes
	end             uint64   // where the module ends
}

// node is a bubble and its inputs.
type node struct {
	at       uint64
	name, op string       // #name and #op
	shape    []int32      // #shape, with -1 for unknown dimensions; nil if the node states none
	dtype    layout.DType // #dtype; Invalid if the node states none
	outputs  int32        // #output_count; 0 if the node states none. Old writers set it to 1
	stated   stated
	params   []param // that are not special, in the order of the file
	inputs   []int   // positions of nodes
	inputsAt uint64  // where the first one stands
	named    bool    // its tensors have its name
}

// stated is a set of special params.
type stated uint8

func (s stated) has(which special) bool { return s>>which&1 != 0 }

// param is a param that is not special: a packed tensor.
type param struct {
	name   string
	fields []field
}

// field is a tensor of a packed tensor.
type field struct {
	at             uint64 // where its description starts
	offset, stored uint64 // of its memory
	shape          []int
	dtype          layout.DType
}

// scanner reads a module from front to back and skips the tensors' bytes.
type scanner struct {
	layout.Cursor
	lim     layout.Limits
	m       module
	skipped uint64          // bytes of tensors so far
	nodes   int             // how many the module says it has
	node    int             // being read, or -1
	param   []byte          // being read, or nil
	seen    map[string]bool // names of the node's params that are not special
}

// scan reads a module. It checks everything but what takes all nodes: cycles and the names of tensors.
func scan(in layout.Input, lim layout.Limits) (*module, error) {
	s := scanner{Cursor: layout.NewCursor(in, layout.TSM, 0, in.Size()), lim: lim, node: -1}
	s.header()
	inputs := s.indexes("inputs")
	outputs := s.indexes("outputs")
	s.graph()
	s.m.end = s.Offset()
	s.m.inputs = s.inRange("inputs", inputs)
	s.m.outputs = s.inRange("outputs", outputs)
	return &s.m, s.located()
}

// located returns the scanner's error, with the node and param that it is about.
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

// header reads the 128 bytes before the module.
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

// count reads the number of records of at least size bytes that follow. It is 0 after an error.
func (s *scanner) count(name string, size uint64) int {
	at := s.Offset()
	n := s.I32(name)
	if n < 0 {
		s.Fail(at, name, layout.ErrInvalid, "%d records", n)
	}
	if s.Err() != nil || !s.Fits(at, name, uint64(n), size) {
		return 0
	}
	// A file may be far longer than it is on disk: its holes read as zeros, and 8 of
	// these are a node.
	if limit := s.lim.HeaderBytes; s.Offset()-s.skipped+uint64(n)*size > limit {
		s.Fail(at, name, layout.ErrLimit, "with these %d records, all but the tensors' bytes take more than %d", n, limit)
		return 0
	}
	return int(n)
}

// indexes are positions in the graph's nodes, as the file has them.
type indexes struct {
	at uint64 // of the first one
	b  []byte
}

// indexes reads a number of positions and the positions. inRange checks them once the number of nodes is known.
func (s *scanner) indexes(name string) indexes {
	n := uint64(s.count(name, minIndex))
	return indexes{s.Offset(), s.Take(name, minIndex*n)}
}

// inRange returns the numbers of x. It fails if one is no node's.
func (s *scanner) inRange(name string, x indexes) []int {
	list := make([]int, 0, len(x.b)/minIndex)
	for i := 0; i < len(x.b); i += minIndex {
		v := int32(binary.LittleEndian.Uint32(x.b[i:]))
		if v < 0 || int(v) >= s.nodes {
			s.Fail(x.at+uint64(i), name, layout.ErrInvalid, "index %d, but there are %d nodes", v, s.nodes)
			break
		}
		list = append(list, int(v))
	}
	return list
}

// graph reads the nodes.
func (s *scanner) graph() {
	at := s.Offset()
	if s.nodes = s.count("graph", minNode); s.nodes > layout.MaxRecords {
		s.Fail(at, "graph", layout.ErrLimit, "%d nodes, more than %d", s.nodes, layout.MaxRecords)
		return
	}
	s.m.nodes = make([]node, 0, s.nodes)
	for s.node+1 < s.nodes && s.Err() == nil {
		s.node++
		s.m.nodes = append(s.m.nodes, s.readNode())
	}
	if s.Err() == nil {
		s.node = -1
	}
}

// readNode reads the next node.
func (s *scanner) readNode() node {
	n := node{at: s.Offset()}
	count := s.count("bubble", minParam)
	s.seen = nil
	for i := 0; i < count && s.Err() == nil; i++ {
		s.readParam(&n)
	}
	if s.Err() != nil {
		return n
	}
	s.param = nil
	inputs := s.indexes("inputs")
	n.inputsAt, n.inputs = inputs.at, s.inRange("inputs", inputs)
	return n
}

// readParam reads the next param and enters it in n. It fails if n has one of the same name.
func (s *scanner) readParam(n *node) {
	at := s.Offset()
	s.param = s.name()
	which := specialNamed(s.param)
	switch {
	case s.Err() != nil:
	case which == notSpecial && !s.seen[string(s.param)]:
		if s.seen == nil {
			s.seen = make(map[string]bool)
		}
		name := string(s.param)
		s.seen[name] = true
		n.params = append(n.params, param{name, s.packedTensor(at)})
		if len(name) > maxParamName {
			s.m.long = append(s.m.long, at)
		}
	case which != notSpecial && !n.stated.has(which):
		n.stated |= 1 << which
		s.special(n, which)
	default:
		s.Fail(at, "name", layout.ErrDuplicate, "the node has two params of this name")
	}
}

// name reads the name of a param. It is nil after an error, so that errors do not quote it.
func (s *scanner) name() []byte {
	at := s.Offset()
	n := s.count("name", 1)
	if n > longestParamName {
		s.Fail(at, "name", layout.ErrLimit, "%d bytes, more than %d", n, longestParamName)
	}
	b := s.Take("name", uint64(n))
	s.checkText(at, "name", b)
	if s.Err() != nil {
		return nil
	}
	return b
}

// checkText fails if b, the value of a field at offset at, is not text.
func (s *scanner) checkText(at uint64, field string, b []byte) {
	switch {
	case !utf8.Valid(b):
		s.Fail(at, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(b))
	case bytes.IndexByte(b, 0) >= 0:
		s.Fail(at, field, layout.ErrInvalid, "%s holds a NUL byte", layout.Quote(b))
	}
}

// packedTensor reads the tensors of a param that starts at offset at, and skips their bytes.
func (s *scanner) packedTensor(at uint64) []field {
	if s.m.params++; s.m.params > layout.MaxRecords {
		s.Fail(at, "bubble", layout.ErrLimit, "more than %d params", layout.MaxRecords)
	}
	n := s.count("packed_tensor", minTensor)
	limit := int(min(s.lim.Tensors, layout.MaxRecords))
	fields := make([]field, 0, min(n, limit-s.m.tensors))
	for range n {
		if s.m.tensors++; s.m.tensors > limit {
			s.Fail(s.Offset(), "packed_tensor", layout.ErrLimit, "more than %d tensors", limit)
		}
		f := s.prototype()
		s.Skip("memory", f.stored)
		s.skipped += f.stored
		if s.Err() != nil {
			break
		}
		fields = append(fields, f)
	}
	return fields
}

// prototype reads a tensor up to its bytes.
func (s *scanner) prototype() field {
	f := field{at: s.Offset()}
	id := s.U8("dtype")
	if f.dtype = dtypeOf(uint32(id)); f.dtype == layout.Invalid {
		s.Fail(f.at, "dtype", layout.ErrUnsupported, "%s", unknownDType(uint32(id)))
	}
	n := s.count("dims", minIndex)
	if uint64(n) > s.lim.Rank {
		s.Fail(f.at+1, "dims", layout.ErrLimit, "%d dimensions, more than %d", n, s.lim.Rank)
	}
	at := s.Offset()
	b := s.Take("shape", 4*uint64(n))
	f.offset, f.shape = s.Offset(), make([]int, len(b)/4)
	for i := range f.shape {
		dim := int32(binary.LittleEndian.Uint32(b[4*i:]))
		if dim < 0 {
			s.Fail(at+4*uint64(i), "shape", layout.ErrInvalid, "dimension %d is %d", i, dim)
		}
		f.shape[i] = int(dim)
	}
	if s.Err() != nil {
		return f
	}
	var err error
	if f.stored, err = f.dtype.Size(f.shape); err != nil {
		s.Fail(at, "shape", layout.ErrInvalid, "%v", err)
	}
	return f
}

// unknownDType says in errors what number id of a type is.
func unknownDType(id uint32) string {
	if id == ptr {
		return "12 is PTR, an address, which says nothing in a file"
	}
	return fmt.Sprintf("%d is no known type", int32(id))
}

// special reads the value of a param that describes its node, and enters it in n.
func (s *scanner) special(n *node, which special) {
	at := s.Offset()
	want := &specials[which]
	if count := s.count("packed_tensor", minTensor); count != 1 {
		s.Fail(at, "packed_tensor", layout.ErrInvalid, "%d fields, not 1", count)
	}
	f := s.prototype()
	if f.dtype != want.dtype || len(f.shape) > 1 || f.stored != uint64(want.dtype.BlockBytes()) && !want.list {
		s.Fail(f.at, want.name, layout.ErrInvalid, "%s %v", f.dtype, f.shape)
	}
	if f.stored > s.lim.NameBytes {
		s.Fail(f.at, want.name, layout.ErrLimit, "%d bytes, more than %d", f.stored, s.lim.NameBytes)
	}
	b := s.Take(want.name, f.stored)
	if s.Err() != nil {
		return
	}
	switch which {
	case nameParam:
		n.name = string(b)
		s.checkText(f.offset, "#name", b)
	case opParam:
		n.op = string(b)
		s.checkText(f.offset, "#op", b)
	case shapeParam:
		n.shape = make([]int32, len(b)/4)
		for i := range n.shape {
			n.shape[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
			if n.shape[i] < -1 { // -1 means unknown
				s.Fail(f.offset+4*uint64(i), "#shape", layout.ErrInvalid, "dimension %d is %d", i, n.shape[i])
			}
		}
	case dtypeParam:
		id := binary.LittleEndian.Uint32(b)
		if n.dtype = dtypeOf(id); n.dtype == layout.Invalid {
			s.Fail(f.offset, "#dtype", layout.ErrUnsupported, "%s", unknownDType(id))
		}
	case outputCountParam:
		n.outputs = int32(binary.LittleEndian.Uint32(b))
	}
}
