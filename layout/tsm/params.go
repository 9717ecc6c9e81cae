package tsm

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
)

// paramSet knows the names of a node's params that are tensors.
type paramSet struct {
	m     *module
	first int           // the node's first one in m.params
	most  int           // how many there can be
	names *layout.Names // nil while they are so few that to look at each is faster
}

// add reports whether name is new. The caller then appends the param to m.params.
func (s *paramSet) add(name []byte) bool {
	const few = 16
	if len(s.m.params)-s.first < few {
		for i := s.first; i < len(s.m.params); i++ {
			if bytes.Equal(s.m.text(s.m.params[i].name), name) {
				return false
			}
		}
		return true
	}
	if s.names == nil {
		s.names = layout.NewNames(s.most)
		for i := s.first; i < len(s.m.params); i++ {
			s.names.Add(layout.HashNameBytes(s.m.text(s.m.params[i].name)), i)
		}
	}
	hash := layout.HashNameBytes(name)
	for p := s.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			s.names.Add(hash, len(s.m.params))
			return true
		}
		if bytes.Equal(s.m.text(s.m.params[i].name), name) {
			return false
		}
	}
}
