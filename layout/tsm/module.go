package tsm

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Module has all that a file says but the bytes of its tensors. It is memory of its own.
type Module struct {
	// Fake and Data are the reserved fields of the header; nothing gives them a meaning.
	Fake int32
	Data [120]byte
	// Inputs and Outputs are positions in Nodes.
	Inputs, Outputs []int
	Nodes           []Node
}

// Node is a bubble and its inputs.
type Node struct {
	// Name is #name. It may be empty, and other nodes may have it too.
	Name string
	// Op is #op, the operator, such as "conv2d". "<param>" is an input of the module,
	// "<const>" a tensor, its param "value", and "<var>" one that may change.
	Op string
	// Inputs are positions in Module.Nodes.
	Inputs []int
	// Shape is #shape, outermost dimension first, with -1 for unknown dimensions. It is nil if the
	// node states none, and empty but not nil for a scalar.
	Shape []int32
	// DType is #dtype. It is Invalid if the node states none.
	DType layout.DType
	// OutputCount is #output_count, or 0 if the node states none. Old writers set it to 1.
	OutputCount int32
	// Params are the other params, in the order of the file.
	Params []Param
}

// Param is a packed tensor of a node. Its fields are Count tensors of the file's
// [layout.Index], from First on; Count may be 0.
type Param struct {
	Name         string
	First, Count int
}

// Param finds a param by its name.
func (n *Node) Param(name string) (Param, bool) {
	i := slices.IndexFunc(n.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return n.Params[i], true
}

// Module reads the file again and returns all of it. Decode has checked it.
func (f *File) Module(in layout.Input) (*Module, error) {
	m, err := f.scan(in)
	if err != nil {
		return nil, err
	}
	out := &Module{
		Fake:    m.fake,
		Data:    [120]byte(m.data),
		Inputs:  ints(m.inputs),
		Outputs: ints(m.outputs),
		Nodes:   make([]Node, len(m.nodes)),
	}
	for i, n := range m.all() {
		out.Nodes[i] = n
	}
	return out, nil
}

// all yields the nodes of a module that was scanned with its notes, one by one: a Node has 14 times
// the fewest bytes that a file spends on one.
func (m *module) all() iter.Seq2[int, Node] {
	return func(yield func(int, Node) bool) {
		params, edges := m.params, m.edges
		first := 0
		for i := range m.nodes {
			n := &m.nodes[i]
			out := m.node(i)
			out.Inputs, edges = ints(edges[:n.inputs]), edges[n.inputs:]
			out.Params = make([]Param, n.params)
			for j := range out.Params {
				x := &params[j]
				out.Params[j] = Param{string(m.text(x.name)), first, int(x.fields)}
				first += int(x.fields)
			}
			params = params[n.params:]
			if !yield(i, out) {
				return
			}
		}
	}
}

// node returns node i, without its inputs and params.
func (m *module) node(i int) Node {
	n, notes := &m.nodes[i], &m.notes[i]
	out := Node{Name: string(m.text(n.name)), Op: string(notes.op), DType: notes.dtype, OutputCount: notes.outputs}
	if n.stated.has(shapeParam) {
		out.Shape = make([]int32, len(notes.shape)/4)
		for k := range out.Shape {
			out.Shape[k] = int32(binary.LittleEndian.Uint32(notes.shape[4*k:]))
		}
	}
	return out
}

// scan reads the module again from the file that was decoded.
func (f *File) scan(in layout.Input) (*module, error) {
	m, err := scan(in, f.lim, true)
	if err == nil && len(m.fields) != len(f.index.Tensors) {
		err = layout.Errorf(layout.TSM, 0, "graph", layout.ErrInvalid, "%d tensors, but the file had %d when it was opened", len(m.fields), len(f.index.Tensors))
	}
	return m, err
}

func ints(in []int32) []int {
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = int(v)
	}
	return out
}

// paramSet knows the names of a node's params that are tensors.
type paramSet struct {
	m     *module
	first int           // the node's first one in m.params
	names *layout.Names // nil while a linear search is faster
	room  int           // of names
}

// add reports whether name is new. The caller then appends the param to m.params.
func (s *paramSet) add(name []byte) bool {
	const few = 16
	n := len(s.m.params) - s.first
	if n < few {
		for i := range n {
			if s.is(s.first+i, name) {
				return false
			}
		}
		return true
	}
	if n >= s.room {
		s.grow(4 * n)
	}
	hash := layout.HashNameBytes(name)
	for p := s.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			s.names.Add(hash, n)
			return true
		}
		if s.is(s.first+i, name) {
			return false
		}
	}
}

// is reports whether param i has a name.
func (s *paramSet) is(i int, name []byte) bool {
	return bytes.Equal(s.m.text(s.m.params[i].name), name)
}

// grow makes a table with room for so many params, whatever number the file states.
func (s *paramSet) grow(room int) {
	s.names, s.room = layout.NewNames(room), room
	for i := s.first; i < len(s.m.params); i++ {
		s.names.Add(layout.HashNameBytes(s.m.text(s.m.params[i].name)), i-s.first)
	}
}

// push appends v. It doubles a capacity that is used up. append itself grows long
// slices by a quarter and copies them too often.
func push[T any](to []T, v T) []T {
	if len(to) == cap(to) {
		to = slices.Grow(to, max(len(to), 8))
	}
	return append(to, v)
}
