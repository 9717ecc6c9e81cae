package tsm

import (
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// checkAcyclic makes sure that no node reads, through others or itself, what it makes.
func (m *module) checkAcyclic() error {
	if m.sorted() {
		return nil
	}
	w := walk{m: m, done: make([]bool, m.nodes.n), onPath: make([]bool, m.nodes.n)}
	for i := range m.nodes.n {
		if err := w.from(i); err != nil {
			return err
		}
	}
	return nil
}

// sorted reports whether nodes stand all after or all before their inputs, as most writers
// put them: then there is no cycle.
func (m *module) sorted() bool {
	after, before := true, true
	for i := range m.nodes.n {
		inputs := m.nodes.at(i).inputs
		for k := range inputs.len() {
			v := inputs.get(k)
			after = after && v < i
			before = before && v > i
		}
	}
	return after || before
}

// walk goes through the graph depth first. Its path is a slice and not a recursion, because
// a graph can be as deep as it has nodes.
type walk struct {
	m            *module
	done, onPath []bool // of each node
	path         []step
}

// step is a node on the path, and how many of its inputs have been looked at.
type step struct{ node, next int }

func (w *walk) from(start int) error {
	if w.done[start] {
		return nil
	}
	w.enter(start)
	for len(w.path) > 0 {
		top := &w.path[len(w.path)-1]
		inputs := w.m.nodes.at(top.node).inputs
		if top.next == inputs.len() {
			w.leave()
			continue
		}
		to := inputs.get(top.next)
		top.next++
		switch {
		case w.onPath[to]:
			return w.cycle(to)
		case !w.done[to]:
			w.enter(to)
		}
	}
	return nil
}

func (w *walk) enter(node int) {
	w.onPath[node] = true
	w.path = append(w.path, step{node: node})
}

func (w *walk) leave() {
	node := w.path[len(w.path)-1].node
	w.onPath[node], w.done[node] = false, true
	w.path = w.path[:len(w.path)-1]
}

// cycle is the error about a path that has come back to node to.
func (w *walk) cycle(to int) error {
	first := len(w.path) - 1
	for w.path[first].node != to {
		first--
	}
	last := w.path[len(w.path)-1]
	at := w.m.nodes.at(last.node).inputs.at + minIndex*uint64(last.next-1)
	return layout.Errorf(layout.TSM, at, "inputs", layout.ErrInvalid, "%s", w.describe(w.path[first:]))
}

// describe names the nodes of a cycle, each of which reads the one after it.
func (w *walk) describe(cycle []step) string {
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "a cycle of %d nodes, each with the next as an input: ", len(cycle))
	for _, s := range cycle[:min(len(cycle), most)] {
		fmt.Fprintf(&b, "%d %s, ", s.node, layout.Quote(w.m.nodes.at(s.node).name))
	}
	if len(cycle) > most {
		b.WriteString("…, ")
	}
	fmt.Fprintf(&b, "and %d again", cycle[0].node)
	return b.String()
}
