package tsm

import "github.com/tensormap/tensormap/layout"

// checkAcyclic returns an error if a node reads its own output, directly or through others. It goes through the graph depth first. The path
// is a slice and no recursion, because a graph can be as deep as it has nodes.
func (m *module) checkAcyclic() error {
	const done = -1
	place := make([]int, len(m.nodes)) // of a node on the path, from 1 on; done if it has been left; 0 if it has not been seen
	read := make([]int, len(m.nodes))  // how many of a node's inputs have been gone to
	var path []int
	for start := range m.nodes {
		for next := start; ; {
			if place[next] == 0 {
				path = append(path, next)
				place[next] = len(path)
			}
			last := len(path) - 1
			for last >= 0 && read[path[last]] == len(m.nodes[path[last]].inputs) {
				place[path[last]] = done
				last--
			}
			if path = path[:last+1]; last < 0 {
				break
			}
			node := path[last]
			n := &m.nodes[node]
			next = n.inputs[read[node]]
			if place[next] > 0 {
				return layout.Errorf(layout.TSM, n.inputsAt+minIndex*uint64(read[node]), "inputs", layout.ErrInvalid,
					"node %d, %s, reads its own output: a cycle of %d nodes", next, layout.Quote(m.nodes[next].name), len(path)-place[next]+1)
			}
			read[node]++
		}
	}
	return nil
}
