package tsm

import (
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// checkAcyclic makes sure that no node reads its own output, directly or through others.
func (m *module) checkAcyclic() error {
	if m.sorted() {
		return nil
	}
	w := walk{m: m, state: make([]progress, len(m.nodes)), edges: make([]int, len(m.nodes)+1)}
	for i := range m.nodes {
		w.edges[i+1] = w.edges[i] + int(m.nodes[i].inputs)
	}
	for i := range m.nodes {
		if err := w.from(i); err != nil {
			return err
		}
	}
	return nil
}

// sorted reports whether all nodes stand after, or all before, their inputs, as many writers
// put them. Then there is no cycle.
func (m *module) sorted() bool {
	after, before := true, true
	edges := m.edges
	for i := range m.nodes {
		n := m.nodes[i].inputs
		for _, v := range edges[:n] {
			after = after && int(v) < i
			before = before && int(v) > i
		}
		edges = edges[n:]
	}
	return after || before
}

// walk goes through the graph depth first. Its path is a slice and no recursion, because
// a graph can be as deep as it has nodes.
type walk struct {
	m     *module
	state []progress // of each node
	edges []int      // where in m.edges the inputs of each node start, and the last ones end
	path  []step
}

// progress is the state of a node in a walk.
type progress uint8

const (
	unseen progress = iota
	onPath
	done
)

// step is a node on the path, and the position of its next edge in m.edges.
type step struct{ node, next int }

func (w *walk) from(start int) error {
	if w.state[start] == unseen {
		w.enter(start)
	}
	for len(w.path) > 0 {
		top := &w.path[len(w.path)-1]
		if top.next == w.edges[top.node+1] {
			w.state[top.node] = done
			w.path = w.path[:len(w.path)-1]
			continue
		}
		to := int(w.m.edges[top.next])
		top.next++
		switch w.state[to] {
		case onPath:
			return w.cycle(to)
		case unseen:
			w.enter(to)
		}
	}
	return nil
}

func (w *walk) enter(node int) {
	w.state[node] = onPath
	w.path = append(w.path, step{node, w.edges[node]})
}

// cycle returns the error about a path that has come back to node to.
func (w *walk) cycle(to int) error {
	first := len(w.path) - 1
	for w.path[first].node != to {
		first--
	}
	last := w.path[len(w.path)-1]
	at := w.m.nodes[last.node].inputsAt + minIndex*uint64(last.next-1-w.edges[last.node])
	return layout.Errorf(layout.TSM, at, "inputs", layout.ErrInvalid, "%s", w.describe(w.path[first:]))
}

// describe names the nodes of a cycle. Each reads the one after it.
func (w *walk) describe(cycle []step) string {
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "a cycle of %d nodes, each with the next as an input: ", len(cycle))
	for _, s := range cycle[:min(len(cycle), most)] {
		fmt.Fprintf(&b, "%d %s, ", s.node, layout.Quote(w.m.text(w.m.nodes[s.node].name)))
	}
	if len(cycle) > most {
		b.WriteString("…, ")
	}
	fmt.Fprintf(&b, "and %d again", cycle[0].node)
	return b.String()
}
