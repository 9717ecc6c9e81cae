package tsm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// scan reads the module again from the file that was decoded, and finds the names of its tensors. It fails if there are others now.
func (f *File) scan(in layout.Input) (*module, error) {
	m, err := scan(in, f.lim)
	if err != nil {
		return nil, err
	}
	if m.tensors != len(f.index.Tensors) {
		return nil, layout.Errorf(layout.TSM, 0, "graph", layout.ErrInvalid, "%d tensors, but the file had %d when it was opened", m.tensors, len(f.index.Tensors))
	}
	left := f.index.Tensors
	for i := range m.nodes {
		for j := range m.nodes[i].params {
			p := &m.nodes[i].params[j]
			p.tensors = make([]string, len(p.fields))
			for k := range p.tensors {
				p.tensors[k] = string(left[k].Name)
			}
			left = left[len(p.fields):]
		}
	}
	return m, nil
}

// Graph returns the module's graph. A node's attributes are shape, dtype and output_count, if
// it states them, as in Metadata.
func (f *File) Graph(in layout.Input) (*layout.Graph, error) {
	m, err := f.scan(in)
	if err != nil {
		return nil, err
	}
	g := &layout.Graph{Inputs: m.inputs, Outputs: m.outputs, Nodes: make([]layout.Node, len(m.nodes))}
	for i := range m.nodes {
		n := &m.nodes[i]
		tensors := []string{}
		for _, p := range n.params {
			tensors = append(tensors, p.tensors...)
		}
		g.Nodes[i] = layout.Node{Name: n.name, Op: n.op, Inputs: n.inputs, Tensors: tensors, Attributes: n.attributes()}
	}
	return g, nil
}

// attributes returns what a node says in addition to its name, operator, inputs and tensors.
func (n *node) attributes() layout.Metadata {
	var md layout.Metadata
	if n.shape != nil {
		md.Set("shape", n.shape)
	}
	if n.dtype != layout.Invalid {
		md.Set("dtype", n.dtype.String())
	}
	if n.outputs != 0 {
		md.Set("output_count", n.outputs)
	}
	return md
}

// Metadata returns all that the module says:
//
//	{"inputs": [1], "outputs": [0],
//	 "nodes": [
//	  {"name": "sum", "op": "add", "inputs": [1, 2]},
//	  {"name": "data", "op": "<param>", "inputs": [], "shape": [-1, 3], "dtype": "F32"},
//	  {"name": "bias", "op": "<const>", "inputs": [], "params": {"value": ["bias/value"]}}]}
//
// Numbers are positions in nodes. shape, dtype and output_count are there if the node
// states them. params maps the other params to the names of their tensors. The
// reserved fields of the header, fake and data, come first if they are not 0.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	m, err := f.scan(in)
	if err != nil {
		return nil, err
	}
	var md layout.Metadata
	if m.fake != 0 {
		md.Set("fake", m.fake)
	}
	if data := [120]byte(m.data); data != ([120]byte{}) {
		md.Set("data", layout.Blob(data[:]))
	}
	nodes := make([]any, len(m.nodes))
	for i := range m.nodes {
		nodes[i] = m.nodes[i].metadata()
	}
	md.Set("inputs", int64s(m.inputs))
	md.Set("outputs", int64s(m.outputs))
	md.Set("nodes", nodes)
	return md, nil
}

// metadata describes a node.
func (n *node) metadata() layout.Metadata {
	md := layout.Metadata{{Key: "name", Value: n.name}, {Key: "op", Value: n.op}, {Key: "inputs", Value: int64s(n.inputs)}}
	md = append(md, n.attributes()...)
	if len(n.params) == 0 {
		return md
	}
	params := make(layout.Metadata, len(n.params))
	for i, p := range n.params {
		params[i] = layout.Entry{Key: p.name, Value: p.tensors}
	}
	return append(md, layout.Entry{Key: "params", Value: params})
}

// int64s returns positions as a []int64.
func int64s(in []int) []int64 {
	out := make([]int64, len(in))
	for i, v := range in {
		out[i] = int64(v)
	}
	return out
}

// Summary counts nodes, operators and parameters, and lists inputs and outputs.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	m, err := f.scan(in)
	if err != nil {
		return nil, err
	}
	return []layout.Fact{
		{Label: "nodes", Value: fmt.Sprint(len(m.nodes))},
		{Label: "inputs", Value: m.nodeLines(m.inputs)},
		{Label: "outputs", Value: m.nodeLines(m.outputs)},
		{Label: "operators", Value: m.operators()},
		{Label: "parameters", Value: f.parameters()},
	}, nil
}

// nodeLines names nodes, one a line, with the outputs that they state.
func (m *module) nodeLines(nodes []int) string {
	const shown = 16
	var lines []string
	for _, i := range nodes[:min(len(nodes), shown)] {
		n := &m.nodes[i]
		line := shorten(cmp.Or(n.name, fmt.Sprintf("#%d", i)))
		if n.dtype != layout.Invalid && n.dtype != layout.VOID {
			line += " " + n.dtype.String()
		}
		if n.shape != nil {
			line += " " + shorten(fmt.Sprint(n.shape))
		}
		lines = append(lines, line)
	}
	if more := len(nodes) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// shorten returns s, cut if it is longer than a line should be.
func shorten(s string) string {
	const limit = 80 // bytes
	for i := range s {
		if i > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// operators counts the nodes of each operator, the most frequent first.
func (m *module) operators() string {
	const shown = 32
	count := map[string]int{}
	for i := range m.nodes {
		count[m.nodes[i].op]++
	}
	ops := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var list []string
	for _, op := range ops[:min(len(ops), shown)] {
		list = append(list, fmt.Sprintf("%s ×%d", shorten(cmp.Or(op, `""`)), count[op]))
	}
	if more := len(ops) - shown; more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

// parameters counts the elements that take bytes of the file: a VOID tensor can have any number.
func (f *File) parameters() string {
	var elements, size uint64
	for i := range f.index.Tensors {
		if t := &f.index.Tensors[i]; t.Stored > 0 {
			elements += t.Elements()
			size += t.Stored
		}
	}
	return fmt.Sprintf("%d in %d tensors, %d bytes", elements, len(f.index.Tensors), size)
}
