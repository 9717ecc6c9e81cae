package tsm

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Module is all that a file says but the bytes of its tensors. It is memory of its own.
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
	// Shape is #shape, outermost dimension first, -1 where it is not known: nil where the
	// node states none, not nil and empty for a scalar.
	Shape []int32
	// DType is #dtype: Invalid where the node states none.
	DType layout.DType
	// OutputCount is #output_count, which old writers set to 1: 0 where the node states none.
	OutputCount int32
	// Params are the others, in the order of the file.
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

// Module reads what Decode has checked once more, and keeps it.
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

// all are the nodes of a module that was scanned with its notes. Whoever has no need of all at
// once goes through them: a Node is 14 times as long as the least that a file spends on one.
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

// node is what node i says of itself, without its inputs and params.
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

// scan reads the module again, from the file that was decoded.
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
