package tsm

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// progress is the state of a node in checkAcyclic.
type progress uint8

const (
	unseen progress = iota
	onPath
	done
)

// step is a node on the path of checkAcyclic, and how many of its inputs have been gone to.
type step struct{ node, inputs int }

// checkAcyclic makes sure that no node reads its own output, directly or through others. It goes through the graph depth first. The path
// is a slice and no recursion, because a graph can be as deep as it has nodes.
func (m *module) checkAcyclic() error {
	state := make([]progress, len(m.nodes))
	var path []step
	enter := func(node int) {
		state[node] = onPath
		path = append(path, step{node, 0})
	}
	for start := range m.nodes {
		if state[start] == unseen {
			enter(start)
		}
		for len(path) > 0 {
			top := &path[len(path)-1]
			inputs := m.nodes[top.node].inputs
			if top.inputs == len(inputs) {
				state[top.node] = done
				path = path[:len(path)-1]
				continue
			}
			to := inputs[top.inputs]
			top.inputs++
			switch state[to] {
			case onPath:
				return m.cycleError(path, to)
			case unseen:
				enter(to)
			}
		}
	}
	return nil
}

// cycleError returns the error about a path that has come back to node to.
func (m *module) cycleError(path []step, to int) error {
	first := slices.IndexFunc(path, func(s step) bool { return s.node == to })
	last := path[len(path)-1]
	at := m.nodes[last.node].inputsAt + minIndex*uint64(last.inputs-1)
	return layout.Errorf(layout.TSM, at, "inputs", layout.ErrInvalid, "node %d, %s, reads its own output: a cycle of %d nodes",
		to, layout.Quote([]byte(m.nodes[to].name)), len(path)-first)
}
