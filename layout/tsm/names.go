package tsm

import (
	"bytes"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// chooseNames finds the nodes that give their tensors their name. No other node with tensors has that
// name, and it is no other node's index.
func (m *module) chooseNames() {
	seen := layout.NewNames(len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		if n.fields == 0 || n.name.n == 0 {
			continue
		}
		name := m.text(n.name)
		other := seen.Enter(layout.HashNameBytes(name), i, func(j int) bool { return bytes.Equal(m.text(m.nodes[j].name), name) })
		if other >= 0 {
			m.nodes[other].named = false
		} else {
			n.named = !m.isOtherIndex(name, i)
		}
	}
}

// isOtherIndex reports whether name is the decimal index of a node other than i.
func (m *module) isOtherIndex(name []byte, i int) bool {
	if name[0] < '0' || name[0] > '9' || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return false
	}
	v, err := strconv.ParseUint(string(name), 10, 64)
	return err == nil && v < uint64(len(m.nodes)) && v != uint64(i)
}

// nameBytes returns how long all names together can get if they are not positions.
func (m *module) nameBytes() (total uint64) {
	digits := len(strconv.Itoa(max(len(m.nodes), len(m.params), len(m.fields)))) // of the highest index
	p := 0
	for i := range m.nodes {
		n := &m.nodes[i]
		prefix := digits
		if n.named {
			prefix = n.name.n
		}
		for range n.params {
			x := &m.params[p]
			each := prefix + 1 + x.name.n
			if x.fields > 1 {
				each += 1 + digits
			}
			total += uint64(each) * uint64(x.fields)
			p++
		}
	}
	return total
}

// names makes the names of a module's tensors.
type names struct {
	*module
	byPosition bool
	last       []byte // memory that each name takes in turn
}

// tensor returns the name of field k of param p, the j-th of node i. It lasts until the next call.
func (x *names) tensor(i, j, p, k int) []byte {
	n, param := &x.nodes[i], &x.params[p]
	b := x.last[:0]
	if n.named && !x.byPosition {
		b = append(b, x.text(n.name)...)
	} else {
		b = strconv.AppendInt(b, int64(i), 10)
	}
	b = append(b, '/')
	if x.byPosition {
		b = strconv.AppendInt(b, int64(j), 10)
	} else {
		b = append(b, x.text(param.name)...)
	}
	if param.fields > 1 {
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(k), 10)
	}
	x.last = b
	return b
}
