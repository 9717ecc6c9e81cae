package tsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// checkAcyclic makes sure that no node reads its own output, directly or through others.
func (m *module) checkAcyclic() error {
	w := walk{m: m, state: make([]progress, len(m.nodes))}
	for i := range m.nodes {
		if err := w.visitFrom(i); err != nil {
			return err
		}
	}
	return nil
}

// walk goes through the graph depth first. Its path is a slice and no recursion, because
// a graph can be as deep as it has nodes.
type walk struct {
	m     *module
	state []progress // of each node
	path  []step
}

// progress is the state of a node in a walk.
type progress uint8

const (
	unseen progress = iota
	onPath
	done
)

// step is a node on the path, and how many of its inputs have been gone to.
type step struct{ node, inputs int }

// visitFrom visits start and all nodes from which its inputs come, directly or through others, unless it has visited them. It fails if
// one of them reads its own output.
func (w *walk) visitFrom(start int) error {
	if w.state[start] == unseen {
		w.enter(start)
	}
	for len(w.path) > 0 {
		top := &w.path[len(w.path)-1]
		inputs := w.m.nodes[top.node].inputs
		if top.inputs == len(inputs) {
			w.state[top.node] = done
			w.path = w.path[:len(w.path)-1]
			continue
		}
		to := inputs[top.inputs]
		top.inputs++
		switch w.state[to] {
		case onPath:
			return w.cycle(to)
		case unseen:
			w.enter(to)
		}
	}
	return nil
}

// enter puts a node at the end of the path.
func (w *walk) enter(node int) {
	w.state[node] = onPath
	w.path = append(w.path, step{node, 0})
}

// cycle returns the error about a path that has come back to node to.
func (w *walk) cycle(to int) error {
	first := slices.IndexFunc(w.path, func(s step) bool { return s.node == to })
	last := w.path[len(w.path)-1]
	at := w.m.nodes[last.node].inputsAt + minIndex*uint64(last.inputs-1)
	return layout.Errorf(layout.TSM, at, "inputs", layout.ErrInvalid, "%s", w.describe(w.path[first:]))
}

// describe names the nodes of a cycle. Each reads the one after it.
func (w *walk) describe(cycle []step) string {
	const shown = 8
	var b strings.Builder
	fmt.Fprintf(&b, "a cycle of %d nodes, each with the next as an input: ", len(cycle))
	for _, s := range cycle[:min(len(cycle), shown)] {
		fmt.Fprintf(&b, "%d %s, ", s.node, layout.Quote([]byte(w.m.nodes[s.node].name)))
	}
	if len(cycle) > shown {
		b.WriteString("…, ")
	}
	fmt.Fprintf(&b, "and %d again", cycle[0].node)
	return b.String()
}
