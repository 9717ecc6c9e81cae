package tsm

import (
	"slices"
	"strconv"
)

// chooseNames sets givesName for the nodes whose names their tensors get: no other node with tensors has the name, and it is not the position
// of another node.
func (m *module) chooseNames() {
	first := make(map[string]*node, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		if n.name == "" || !n.hasTensors() {
			continue
		}
		if other := first[n.name]; other != nil {
			other.givesName = false
		} else {
			first[n.name], n.givesName = n, !m.isOtherPosition(n.name, i)
		}
	}
}

// hasTensors reports whether a param of the node that is not special has a field.
func (n *node) hasTensors() bool {
	return slices.ContainsFunc(n.params, func(p param) bool { return len(p.fields) > 0 })
}

// isOtherPosition reports whether name is the decimal position of a node other than i.
func (m *module) isOtherPosition(name string, i int) bool {
	v, err := strconv.ParseUint(name, 10, 64)
	return err == nil && strconv.FormatUint(v, 10) == name && v < uint64(len(m.nodes)) && v != uint64(i)
}

// nameBytes returns an upper bound of the bytes of all tensors' names together, if they are not named by position.
func (m *module) nameBytes() (total uint64) {
	digits := len(strconv.Itoa(max(len(m.nodes), m.tensors))) // of the highest position
	for i := range m.nodes {
		n := &m.nodes[i]
		prefix := digits
		if n.givesName {
			prefix = len(n.name)
		}
		for _, p := range n.params {
			total += uint64(prefix+1+len(p.name)+1+digits) * uint64(len(p.fields))
		}
	}
	return total
}

// appendName appends to b the name of field k of the j-th param of node i.
func (m *module) appendName(b []byte, i, j, k int) []byte {
	n := &m.nodes[i]
	if n.givesName && !m.byPosition {
		b = append(b, n.name...)
	} else {
		b = strconv.AppendInt(b, int64(i), 10)
	}
	b = append(b, '/')
	if m.byPosition {
		b = strconv.AppendInt(b, int64(j), 10)
	} else {
		b = append(b, n.params[j].name...)
	}
	if len(n.params[j].fields) > 1 {
		b = strconv.AppendInt(append(b, '/'), int64(k), 10)
	}
	return b
}
