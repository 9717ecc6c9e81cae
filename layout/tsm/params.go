package tsm

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
)

// paramSet knows the names of a node's params that are tensors.
type paramSet struct {
	m     *module
	first int           // the node's first one in m.params
	names *layout.Names // nil while they are so few that to look at each is faster
	room  int           // how many names can hold
}

// add reports whether name is new. The caller then appends the param to m.params.
func (s *paramSet) add(name []byte) bool {
	const few = 16
	n := len(s.m.params) - s.first
	if n < few {
		for i := range n {
			if s.is(s.first+i, name) {
				return false
			}
		}
		return true
	}
	if n >= s.room {
		s.grow(4 * n)
	}
	hash := layout.HashNameBytes(name)
	for p := s.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			s.names.Add(hash, n)
			return true
		}
		if s.is(s.first+i, name) {
			return false
		}
	}
}

// is reports whether param i has this name.
func (s *paramSet) is(i int, name []byte) bool {
	return bytes.Equal(s.m.text(s.m.params[i].name), name)
}

// grow makes a table with room for so many params, however many the file says there will be.
func (s *paramSet) grow(room int) {
	s.names, s.room = layout.NewNames(room), room
	for i := s.first; i < len(s.m.params); i++ {
		s.names.Add(layout.HashNameBytes(s.m.text(s.m.params[i].name)), i-s.first)
	}
}
