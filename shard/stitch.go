package shard

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
)

// Part is one file of a set: what it is called, for errors, and what it holds.
type Part struct {
	Path  string
	Index *layout.Index
}

// Table is the tensors of several files as if they were one's.
type Table struct {
	// Tensors of all parts, in the parts' order; File is the part's position. Names and
	// shapes are shared with the parts' indexes.
	Tensors []layout.Tensor
	// Names finds them: a Probe's index is one into Tensors.
	Names *layout.Names
}

// find is the position of the tensor called name, or -1.
func (t *Table) find(name string) int {
	for p := t.Names.Probe(layout.HashName(name)); ; {
		i, ok := p.Next()
		if !ok {
			return -1
		}
		if string(t.Tensors[i].Name) == name {
			return i
		}
	}
}

// clash are two tensors of the same name.
type clash struct{ first, second int }

// join makes a table of all parts' tensors, or finds two of the same name.
func join(parts []Part) (*Table, *clash) {
	count := 0
	for _, p := range parts {
		count += len(p.Index.Tensors)
	}
	t := &Table{Tensors: make([]layout.Tensor, 0, count), Names: layout.NewNames(count)}
	for i, p := range parts {
		for _, x := range p.Index.Tensors {
			x.File = uint32(i)
			at := len(t.Tensors)
			t.Tensors = append(t.Tensors, x)
			hash := layout.HashNameBytes(x.Name)
			if first := t.same(hash, x.Name); first >= 0 {
				return t, &clash{first, at}
			}
			t.Names.Add(hash, at)
		}
	}
	return t, nil
}

// same is the position of the tensor called name, which has this hash, or -1.
func (t *Table) same(hash uint64, name []byte) int {
	for p := t.Names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			return -1
		}
		if bytes.Equal(t.Tensors[i].Name, name) {
			return i
		}
	}
}

// checkCount keeps the sum of all parts' tensors within what a table can hold and the user
// allows.
func checkCount(parts []Part, lim *layout.Limits) (count, most uint64) {
	for _, p := range parts {
		count += uint64(len(p.Index.Tensors))
	}
	return count, lim.WithDefaults().Tensors
}

// Stitch makes one table of the shards' tensors, parts being what Shards names, in order.
func (m *Manifest) Stitch(parts []Part, lim *layout.Limits) (*Table, error) {
	for i, p := range parts {
		if got := p.Index.Format; got != m.Of {
			return nil, m.errorf(m.file(i), m.keys.file, layout.ErrInvalid, "shard %s is of format %v, not %v", quote(m.Shards[i].Name), got, m.Of)
		}
	}
	if n, most := checkCount(parts, lim); n > most {
		return nil, m.errorf([]any{m.keys.tensors}, m.keys.tensors, layout.ErrLimit, "%d tensors in all shards, more than %d", n, most)
	}
	t, c := join(parts)
	if c != nil {
		a, b := &t.Tensors[c.first], &t.Tensors[c.second]
		return nil, m.errorf([]any{m.keys.tensors, string(a.Name)}, m.keys.tensors, layout.ErrDuplicate, "tensor %s is in shard %s and in shard %s",
			layout.Quote(a.Name), quote(m.Shards[a.File].Name), quote(m.Shards[b.File].Name))
	}
	for i := range m.places {
		if err := m.checkPlace(t, i); err != nil {
			return nil, err
		}
	}
	m.table = t
	return t, nil
}

// checkPlace makes sure that the tensor of place i is where the map says.
func (m *Manifest) checkPlace(t *Table, i int) error {
	p, name := m.places[i], m.name(i)
	at := t.find(name)
	switch {
	case at < 0:
		return m.errorf(m.tensor(i), m.keys.tensors, layout.ErrNotFound,
			"tensor %s should be in shard %s, which has no such tensor", quote(name), quote(m.Shards[p.shard].Name))
	case t.Tensors[at].File != p.shard:
		return m.errorf(m.tensor(i), m.keys.tensors, layout.ErrInvalid, "tensor %s should be in shard %s, but is in shard %s",
			quote(name), quote(m.Shards[p.shard].Name), quote(m.Shards[t.Tensors[at].File].Name))
	}
	return nil
}
