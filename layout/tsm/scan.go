package tsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/ascii"
	"github.com/tensormap/tensormap/layout/internal/doubling"
)

// module has all that a file says but the tensors' bytes. Its lists hold no pointers: a large
// one is no work for the garbage collector.
type module struct {
	fake            int32
	data            []byte
	inputs, outputs []int32
	nodes           []node
	params          []param  // of one node after the other
	fields          []field  // of one param after the other
	edges           []int32  // inputs of one node after the other
	dims            []int    // of one field after the other
	texts           []byte   // names of nodes and params
	notes           []notes  // of the nodes, if they are kept
	long            []uint64 // offsets of names of params of more than 31 bytes
	end             uint64   // where the module ends
}

// node is what an index needs to know of a node.
type node struct {
	name     text
	inputsAt uint64 // of the first one
	inputs   int32
	params   int32
	fields   int32
	stated   stated
	named    bool // its tensors have its name
}

// notes has the other statements of a node.
type notes struct {
	at        uint64
	op, shape []byte // values of the special params, slices of the input
	dtype     layout.DType
	outputs   int32
}

// stated is a set of special params.
type stated uint8

func (s stated) has(which special) bool { return s>>which&1 != 0 }

// param is a param that is not special: a packed tensor.
type param struct {
	name   text
	fields int32
}

// field is a tensor of a packed tensor.
type field struct {
	offset, stored uint64 // of its memory
	rank           uint32
	dtype          layout.DType
}

// at returns where the tensor starts.
func (f *field) at() uint64 { return f.offset - minTensor - 4*uint64(f.rank) }

// text is a place in module.texts.
type text struct{ at, n int }

func (m *module) text(t text) []byte { return m.texts[t.at : t.at+t.n] }

func (m *module) addText(b []byte) text {
	m.texts = append(doubling.Grow(m.texts, len(b)), b...)
	return text{len(m.texts) - len(b), len(b)}
}

// scanner reads a module from front to back and skips the tensors' bytes.
type scanner struct {
	layout.Cursor
	lim      layout.Limits
	m        *module
	keep     bool   // notes are kept
	spare    notes  // takes notes that are not kept
	fastDims int    // the most dimensions for fastParam; -1: it takes nothing
	skipped  uint64 // bytes of tensors so far
	nodes    int    // how many there are
	node     int    // being read, or -1
	param    []byte // being read, or nil
}

// scan reads a module. It checks everything that does not take two nodes at once. It keeps notes if keep
// is true.
func scan(in layout.Input, lim layout.Limits, keep bool) (*module, error) {
	s := newScanner(in, lim)
	s.keep = keep
	return s.scan()
}

func newScanner(in layout.Input, lim layout.Limits) *scanner {
	return &scanner{
		Cursor:   layout.NewCursor(in, layout.TSM, 0, in.Size()),
		lim:      lim,
		m:        new(module),
		fastDims: int(min(fastDims, lim.Rank)),
		node:     -1,
	}
}

func (s *scanner) scan() (*module, error) {
	s.header()
	inputs := s.indexes("inputs")
	outputs := s.indexes("outputs")
	s.graph()
	s.m.end = s.Offset()
	s.m.inputs = s.inRange(nil, "inputs", inputs)
	s.m.outputs = s.inRange(nil, "outputs", outputs)
	return s.m, s.located()
}

// located returns the error with the node and param that it is about.
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
		return 0
	}
	// The product cannot overflow, and takes less time than the division of Fits.
	if uint64(n)*size > s.Left() && !s.Fits(at, name, uint64(n), size) {
		return 0
	}
	// A file may be far longer than it is on disk: its holes read as zeros, and 8 of
	// these are a node.
	if most := s.lim.HeaderBytes; s.Offset()-s.skipped+uint64(n)*size > most {
		s.Fail(at, name, layout.ErrLimit, "with these %d records, all but the tensors' bytes take more than %d", n, most)
		return 0
	}
	return int(n)
}

// indexes are positions in the graph's nodes.
type indexes struct {
	at uint64 // of the first one
	b  []byte
}

func (s *scanner) indexes(name string) indexes {
	n := uint64(s.count(name, minIndex))
	return indexes{s.Offset(), s.Take(name, minIndex*n)}
}

// inRange appends indexes to those in to. It fails if one is no node's.
func (s *scanner) inRange(to []int32, name string, x indexes) []int32 {
	for i := 0; i < len(x.b); i += minIndex {
		v := int32(binary.LittleEndian.Uint32(x.b[i:]))
		if v < 0 || int(v) >= s.nodes {
			s.Fail(x.at+uint64(i), name, layout.ErrInvalid, "index %d, but there are %d nodes", v, s.nodes)
			return to
		}
		to = doubling.Append(to, v)
	}
	return to
}

func (s *scanner) graph() {
	s.nodes = s.count("graph", minNode)
	m, n := s.m, min(s.nodes, 4096) // room for nodes of the usual kind
	m.nodes, m.texts = make([]node, 0, n), make([]byte, 0, 32*n)
	m.params, m.fields = make([]param, 0, n+n/2), make([]field, 0, n+n/2)
	m.edges, m.dims = make([]int32, 0, 2*n), make([]int, 0, 2*n)
	if s.keep { // the file was decoded: it has as many
		s.m.notes = make([]notes, 0, s.nodes)
	}
	for s.node+1 < s.nodes && s.Err() == nil {
		s.node++
		s.readNode()
	}
	if s.Err() == nil {
		s.node = -1
	}
}

func (s *scanner) readNode() {
	s.sparse("graph", "nodes", s.node, nodeBytes)
	s.m.nodes = doubling.Append(s.m.nodes, node{})
	n, extra := &s.m.nodes[s.node], &s.spare
	if s.keep {
		s.m.notes = doubling.Append(s.m.notes, notes{at: s.Offset()})
		extra = &s.m.notes[s.node]
	}
	fields := len(s.m.fields)
	count := s.count("bubble", minParam)
	seen := paramSet{m: s.m, first: len(s.m.params)}
	for range count {
		s.sparse("bubble", "params", len(s.m.params), tensorBytes)
		if !s.fastParam(n, extra, &seen) {
			s.anyParam(n, extra, &seen)
		}
		if s.Err() != nil {
			return
		}
	}
	s.param = nil
	n.params, n.fields = int32(len(s.m.params)-seen.first), int32(len(s.m.fields)-fields)
	inputs := s.indexes("inputs")
	n.inputsAt, n.inputs = inputs.at, int32(len(inputs.b)/minIndex)
	s.m.edges = s.inRange(s.m.edges, "inputs", inputs)
}

func (s *scanner) anyParam(n *node, extra *notes, seen *paramSet) {
	at := s.Offset()
	s.param = s.name()
	which := specialNamed(s.param)
	switch {
	case s.Err() != nil:
	case which == notSpecial && seen.add(s.param):
		s.packedTensor()
		if len(s.param) > maxParamName {
			s.m.long = doubling.Append(s.m.long, at)
		}
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
	if s.Err() != nil {
		return nil // errors do not quote it
	}
	return b
}

// text fails if b, the value of a field at offset at, is not text.
func (s *scanner) text(at uint64, field string, b []byte) {
	switch {
	case ascii.Plain(b):
	case !utf8.Valid(b):
		s.Fail(at, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(b))
	case bytes.IndexByte(b, 0) >= 0:
		s.Fail(at, field, layout.ErrInvalid, "%s holds a NUL byte", layout.Quote(b))
	}
}

func (s *scanner) packedTensor() {
	n := s.count("packed_tensor", minTensor)
	s.m.params = doubling.Append(s.m.params, param{s.m.addText(s.param), int32(n)})
	for range n {
		s.full()
		f := s.prototype()
		s.memory(f.stored)
		if s.Err() != nil {
			return
		}
		s.m.fields = doubling.Append(s.m.fields, f)
	}
}

// memory skips the n bytes of a tensor.
func (s *scanner) memory(n uint64) {
	s.Skip("memory", n)
	s.skipped += n
}

// sparse fails if there are n records already, with fewer than each bytes of the file for one.
func (s *scanner) sparse(field, records string, n int, each uint64) {
	if layout.TooDense(uint64(n), s.Offset(), each) {
		s.Fail(s.Offset(), field, layout.ErrLimit, "%d %s in %d bytes, fewer than %d for each", n, records, s.Offset(), each)
	}
}

// full fails if the module has as many tensors as it may.
func (s *scanner) full() {
	if uint64(len(s.m.fields)) >= s.lim.Tensors {
		s.Fail(s.Offset(), "packed_tensor", layout.ErrLimit, "more than %d tensors", s.lim.Tensors)
	}
	s.sparse("packed_tensor", "tensors", len(s.m.fields), tensorBytes)
}

// prototype reads a tensor up to its bytes.
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
	shape := s.shape(at, s.Take("shape", 4*uint64(n)))
	f.offset, f.rank = s.Offset(), uint32(n)
	if s.Err() != nil {
		return f
	}
	var err error
	if f.stored, err = f.dtype.Size(shape); err != nil {
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

// shape decodes the dimensions of the next field and stores them.
func (s *scanner) shape(at uint64, b []byte) []int {
	from := len(s.m.dims)
	for i := 0; i < len(b); i += 4 {
		dim := int32(binary.LittleEndian.Uint32(b[i:]))
		if dim < 0 {
			s.Fail(at+uint64(i), "shape", layout.ErrInvalid, "dimension %d is %d", i/4, dim)
		}
		s.m.dims = doubling.Append(s.m.dims, int(dim))
	}
	return s.m.dims[from:]
}

// special reads the value of a param that describes its node.
func (s *scanner) special(n *node, extra *notes, which special) {
	at := s.Offset()
	want := &specials[which]
	if count := s.count("packed_tensor", minTensor); count != 1 {
		s.Fail(at, "packed_tensor", layout.ErrInvalid, "%d fields, not 1", count)
	}
	dims := len(s.m.dims)
	f := s.prototype()
	if f.dtype != want.dtype || f.rank > 1 || f.stored != uint64(want.dtype.BlockBytes()) && !want.list {
		s.Fail(f.at(), want.name, layout.ErrInvalid, "%s %v", f.dtype, s.m.dims[dims:])
	}
	s.m.dims = s.m.dims[:dims] // they are no field's
	if f.stored > s.lim.NameBytes {
		s.Fail(f.at(), want.name, layout.ErrLimit, "%d bytes, more than %d", f.stored, s.lim.NameBytes)
	}
	b := s.Take(want.name, f.stored)
	if s.Err() == nil {
		s.specialValue(n, extra, which, f.offset, b)
	}
}

// specialValue takes the value of a special param at offset at.
func (s *scanner) specialValue(n *node, extra *notes, which special, at uint64, b []byte) {
	switch which {
	case nameParam:
		n.name = s.m.addText(b)
		s.text(at, "#name", b)
	case opParam:
		extra.op = b
		s.text(at, "#op", b)
	case shapeParam:
		extra.shape = b
		for i := 0; i < len(b); i += 4 {
			if dim := int32(binary.LittleEndian.Uint32(b[i:])); dim < -1 { // which means unknown
				s.Fail(at+uint64(i), "#shape", layout.ErrInvalid, "dimension %d is %d", i/4, dim)
			}
		}
	case dtypeParam:
		id := binary.LittleEndian.Uint32(b)
		if extra.dtype = dtypeOf(id); extra.dtype == layout.Invalid {
			s.Fail(at, "#dtype", layout.ErrUnsupported, "%s", unknownDType(id))
		}
	case outputCountParam:
		extra.outputs = int32(binary.LittleEndian.Uint32(b))
	}
}
