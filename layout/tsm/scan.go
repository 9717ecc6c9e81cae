package tsm

import (
	"encoding/binary"
	"errors"
	"fmt"

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
	byPosition      bool     // tensors are named by the positions of their nodes and params, not by names
}

// node is a bubble and its inputs.
type node struct {
	at        uint64
	name, op  string           // #name and #op
	shape     []int32          // #shape, with -1 for unknown dimensions; nil if the node states none
	dtype     layout.DType     // #dtype; Invalid if the node states none
	outputs   int32            // #output_count; 0 if the node states none. Old writers set it to 1
	stated    [notSpecial]bool // special params that the node has
	params    []param          // that are not special, in the order of the file
	inputs    []int            // positions of nodes
	inputsAt  uint64           // where the first one stands
	givesName bool             // its tensors have its name
}

// param is a param that is not special: a packed tensor.
type param struct {
	name    string
	fields  []field
	tensors []string // names of its fields in the index, once File.scan has found them
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

// scan reads a module. It checks everything but what takes all nodes: cycles and the names of tensors. Errors say which node and param
// they are about.
func scan(in layout.Input, lim layout.Limits) (*module, error) {
	s := scanner{Cursor: layout.NewCursor(in, layout.TSM, 0, in.Size()), lim: lim, node: -1}
	s.readHeader()
	var inputsAt, outputsAt uint64
	s.m.inputs, inputsAt = s.readIndexes("inputs")
	s.m.outputs, outputsAt = s.readIndexes("outputs")
	s.readNodes()
	s.m.end = s.Offset()
	s.checkIndexes("inputs", s.m.inputs, inputsAt)
	s.checkIndexes("outputs", s.m.outputs, outputsAt)
	if e, ok := errors.AsType[*layout.FormatError](s.Err()); ok && s.node >= 0 {
		where := fmt.Sprintf("node %d: ", s.node)
		if s.param != nil {
			where = fmt.Sprintf("node %d, param %s: ", s.node, layout.Quote(s.param))
		}
		e.Reason = where + e.Reason
	}
	return &s.m, s.Err()
}

// readHeader reads the 128 bytes before the module. It sets s's error if the code is not the code of modules.
func (s *scanner) readHeader() {
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

// readCount reads how many records of at least size bytes follow. It returns 0, and sets s's error, if they do not fit the file or its
// headers would be over the limit.
func (s *scanner) readCount(name string, size uint64) int {
	at := s.Offset()
	n := s.I32(name)
	if n < 0 {
		s.Fail(at, name, layout.ErrInvalid, "%d records", n)
	}
	if s.Err() != nil || !s.Fits(at, name, uint64(n), size) {
		return 0
	}
	// A file may be far longer than it is on disk: its holes read as zeros, and 8 of
	// the zeros are a node.
	if limit := s.lim.HeaderBytes; s.Offset()-s.skipped+uint64(n)*size > limit {
		s.Fail(at, name, layout.ErrLimit, "with these %d records, all but the tensors' bytes take more than %d", n, limit)
		return 0
	}
	return int(n)
}

// readIndexes reads a number of positions and the positions, which start at the offset it returns.
func (s *scanner) readIndexes(name string) (list []int, at uint64) {
	n := s.readCount(name, minIndex)
	at = s.Offset()
	b := s.Take(name, minIndex*uint64(n))
	list = make([]int, len(b)/minIndex)
	for i := range list {
		list[i] = int(int32(binary.LittleEndian.Uint32(b[minIndex*i:])))
	}
	return list, at
}

// checkIndexes sets s's error if one of the positions at an offset is not the position of a node.
func (s *scanner) checkIndexes(name string, list []int, at uint64) {
	for i, v := range list {
		if v < 0 || v >= s.nodes {
			s.Fail(at+minIndex*uint64(i), name, layout.ErrInvalid, "index %d, but there are %d nodes", v, s.nodes)
			return // a file may have millions
		}
	}
}

// readNodes reads the nodes: their params and their inputs. After an error s.node is the one that is being read.
func (s *scanner) readNodes() {
	at := s.Offset()
	if s.nodes = s.readCount("graph", minNode); s.nodes > layout.MaxRecords {
		s.Fail(at, "graph", layout.ErrLimit, "%d nodes, more than %d", s.nodes, layout.MaxRecords)
	}
	if s.Err() != nil {
		return
	}
	s.m.nodes = make([]node, 0, s.nodes)
	for s.node = range s.nodes {
		n := node{at: s.Offset()}
		count := s.readCount("bubble", minParam)
		s.seen = nil
		for i := 0; i < count && s.Err() == nil; i++ {
			s.readParam(&n)
		}
		if s.Err() != nil {
			return
		}
		s.param = nil
		n.inputs, n.inputsAt = s.readIndexes("inputs")
		if s.checkIndexes("inputs", n.inputs, n.inputsAt); s.Err() != nil {
			return
		}
		s.m.nodes = append(s.m.nodes, n)
	}
	s.node = -1
}

// readParam reads the next param and enters it in n. It sets s's error if n has one of the same name.
func (s *scanner) readParam(n *node) {
	at := s.Offset()
	s.param = s.readName()
	which := specialNamed(s.param)
	switch {
	case s.Err() != nil:
	case which == notSpecial && !s.seen[string(s.param)]:
		if s.seen == nil {
			s.seen = make(map[string]bool)
		}
		name := string(s.param)
		s.seen[name] = true
		n.params = append(n.params, param{name: name, fields: s.readFields(at)})
		if len(name) > maxParamName {
			s.m.long = append(s.m.long, at)
		}
	case which != notSpecial && !n.stated[which]:
		n.stated[which] = true
		s.readSpecial(n, which)
	default:
		s.Fail(at, "name", layout.ErrDuplicate, "the node has two params of this name")
	}
}

// readName reads the name of a param. It is nil after an error, so that errors do not quote it.
func (s *scanner) readName() []byte {
	at := s.Offset()
	n := s.readCount("name", 1)
	if n > longestParamName {
		s.Fail(at, "name", layout.ErrLimit, "%d bytes, more than %d", n, longestParamName)
	}
	b := s.Take("name", uint64(n))
	s.CheckText(at, "name", b)
	if s.Err() != nil {
		return nil
	}
	return b
}

// readFields reads the descriptions of the tensors of a param that starts at offset at, and skips their bytes. It sets s's error if there
// are too many.
func (s *scanner) readFields(at uint64) []field {
	if s.m.params++; s.m.params > layout.MaxRecords {
		s.Fail(at, "bubble", layout.ErrLimit, "more than %d params", layout.MaxRecords)
	}
	n := s.readCount("packed_tensor", minTensor)
	limit := int(min(s.lim.Tensors, layout.MaxRecords))
	fields := make([]field, 0, min(n, limit-s.m.tensors))
	for range n {
		if s.m.tensors++; s.m.tensors > limit {
			s.Fail(s.Offset(), "packed_tensor", layout.ErrLimit, "more than %d tensors", limit)
		}
		f := s.readTensor()
		s.Skip("memory", f.stored)
		s.skipped += f.stored
		if s.Err() != nil {
			break
		}
		fields = append(fields, f)
	}
	return fields
}

// readTensor reads the description of a tensor, up to its bytes. It sets s's error if type, rank or shape is invalid.
func (s *scanner) readTensor() field {
	f := field{at: s.Offset()}
	id := s.U8("dtype")
	if f.dtype = dtypeOf(uint32(id)); f.dtype == layout.Invalid {
		s.Fail(f.at, "dtype", layout.ErrUnsupported, "%s", unknownDType(uint32(id)))
	}
	n := s.readCount("dims", minIndex)
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

// readSpecial reads the value of a param that describes its node n, such as #name, into n. It sets s's error if the value has not the type
// of the param.
func (s *scanner) readSpecial(n *node, which special) {
	at := s.Offset()
	want := &specials[which]
	if count := s.readCount("packed_tensor", minTensor); count != 1 {
		s.Fail(at, "packed_tensor", layout.ErrInvalid, "%d fields, not 1", count)
	}
	f := s.readTensor()
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
		s.CheckText(f.offset, "#name", b)
	case opParam:
		n.op = string(b)
		s.CheckText(f.offset, "#op", b)
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
