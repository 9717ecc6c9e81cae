package tsm

import (
	"bytes"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// chooseNames finds the nodes after whose name their tensors are called: those whose name
// no other node has, and which no other node has as its index.
func (m *module) chooseNames() {
	seen := layout.NewNames(m.nodes.n)
	for i := range m.nodes.n {
		n := m.nodes.at(i)
		if len(n.name) == 0 {
			continue
		}
		hash := layout.HashNameBytes(n.name)
		for p := seen.Probe(hash); ; {
			j, ok := p.Next()
			if !ok {
				seen.Add(hash, i)
				n.named = !m.isOtherIndex(n.name, i)
				break
			}
			if first := m.nodes.at(j); bytes.Equal(first.name, n.name) {
				first.named = false
				break
			}
		}
	}
}

// isOtherIndex reports whether name is how the index of a node other than i is written.
func (m *module) isOtherIndex(name []byte, i int) bool {
	if name[0] < '0' || name[0] > '9' || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return false
	}
	v, err := strconv.ParseUint(string(name), 10, 64)
	return err == nil && v < uint64(m.nodes.n) && v != uint64(i)
}

// nameBytes is how long all names together can get.
func (m *module) nameBytes(byPosition bool) (total uint64) {
	digits := m.digits()
	if byPosition {
		return uint64(m.fields.n) * uint64(3*digits+2)
	}
	p := 0
	for i := range m.nodes.n {
		n := m.nodes.at(i)
		prefix := digits
		if n.named {
			prefix = len(n.name)
		}
		for range n.params {
			x := m.params.at(p)
			each := prefix + 1 + len(x.name)
			if x.fields > 1 {
				each += 1 + digits
			}
			total += uint64(each) * uint64(x.fields)
			p++
		}
	}
	return total
}

// digits is how many the highest index there is can have.
func (m *module) digits() int {
	return len(strconv.Itoa(max(m.nodes.n, m.params.n, m.fields.n)))
}

// names calls the tensors of a module.
type names struct {
	m          *module
	byPosition bool
	arena      []byte
}

func (m *module) newNames(byPosition bool) *names {
	return &names{m, byPosition, make([]byte, 0, m.nameBytes(byPosition))}
}

// tensor is the name of field k of param p, which is the j-th of node i.
func (x *names) tensor(i, j, p, k int) []byte {
	n, param := x.m.nodes.at(i), x.m.params.at(p)
	b := x.arena
	if n.named && !x.byPosition {
		b = append(b, n.name...)
	} else {
		b = strconv.AppendInt(b, int64(i), 10)
	}
	b = append(b, '/')
	if x.byPosition {
		b = strconv.AppendInt(b, int64(j), 10)
	} else {
		b = append(b, param.name...)
	}
	if param.fields > 1 {
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(k), 10)
	}
	name := b[len(x.arena):len(b):len(b)]
	x.arena = b
	return name
}
