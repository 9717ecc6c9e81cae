package tsm

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// bubble is a node with all that the file says of it.
type bubble struct {
	name, op string // #name and #op
	inputs   []int  // positions of nodes
	// shape is #shape, with -1 for unknown dimensions. It is nil if the node states none, and empty but not
	// nil for a scalar.
	shape   []int32
	dtype   layout.DType // #dtype; Invalid if the node states none
	outputs int32        // #output_count; 0 if the node states none. Old writers set it to 1
	params  []packed     // the other params, in the order of the file
}

// packed is a packed tensor: count tensors of the file's index, from first on. count may be 0.
type packed struct {
	name         string
	first, count int
}

// all yields the nodes of a module that was scanned with its notes, one by one: a bubble has 14 times
// the fewest bytes that a file spends on one.
func (m *module) all() iter.Seq2[int, bubble] {
	return func(yield func(int, bubble) bool) {
		params, edges := m.params, m.edges
		first := 0
		for i := range m.nodes {
			n := &m.nodes[i]
			out := m.node(i)
			out.inputs, edges = ints(edges[:n.inputs]), edges[n.inputs:]
			out.params = make([]packed, n.params)
			for j := range out.params {
				x := &params[j]
				out.params[j] = packed{string(m.text(x.name)), first, int(x.fields)}
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
func (m *module) node(i int) bubble {
	n, notes := &m.nodes[i], &m.notes[i]
	out := bubble{name: string(m.text(n.name)), op: string(notes.op), dtype: notes.dtype, outputs: notes.outputs}
	if n.stated.has(shapeParam) {
		out.shape = make([]int32, len(notes.shape)/4)
		for k := range out.shape {
			out.shape[k] = int32(binary.LittleEndian.Uint32(notes.shape[4*k:]))
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
	before := s.m.params[s.first:]
	named := func(p param) bool { return bytes.Equal(s.m.text(p.name), name) }
	n := len(before)
	if n < few {
		return !slices.ContainsFunc(before, named)
	}
	if n >= s.room {
		s.grow(4 * n)
	}
	return s.names.Enter(layout.HashNameBytes(name), n, func(i int) bool { return named(before[i]) }) < 0
}

// grow makes a table with room for so many params, whatever number the file states.
func (s *paramSet) grow(room int) {
	s.names, s.room = layout.NewNames(room), room
	for i := s.first; i < len(s.m.params); i++ {
		s.names.Add(layout.HashNameBytes(s.m.text(s.m.params[i].name)), i-s.first)
	}
}
