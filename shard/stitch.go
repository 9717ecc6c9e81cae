package shard

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// Part is one file of a set: its name, for errors, and its tensors.
type Part struct {
	Path  string
	Index *layout.Index
}

// Table is the tensors of several files as if they were one's.
type Table struct {
	// Tensors of all parts, in the parts' order; File is the part's position. The parts' indexes share them.
	Tensors []layout.Tensor
	// Names finds them: a Probe's index is one into Tensors.
	Names *layout.Names
}

// find returns the position of the tensor called name, or -1.
func (t *Table) find(name []byte) int {
	for p := t.Names.Probe(layout.HashNameBytes(name)); ; {
		i, ok := p.Next()
		if !ok {
			return -1
		}
		if bytes.Equal(t.Tensors[i].Name, name) {
			return i
		}
	}
}

// clash is a pair of tensors of the same name.
type clash struct{ first, second int }

// join returns the tensors of all parts, which number count.
func join(parts []Part, count uint64) []layout.Tensor {
	list := make([]layout.Tensor, 0, count)
	for i, p := range parts {
		at := len(list)
		list = append(list, p.Index.Tensors...)
		for ; at < len(list); at++ {
			list[at].File = uint32(i)
		}
	}
	return list
}

// name makes the table of t's names, or finds two that are the same.
func (t *Table) name() *clash {
	t.Names = layout.NewNames(len(t.Tensors))
	for at := range t.Tensors {
		x := &t.Tensors[at]
		p := t.Names.Probe(layout.HashNameBytes(x.Name))
		for first, ok := p.Next(); ok; first, ok = p.Next() {
			if bytes.Equal(t.Tensors[first].Name, x.Name) {
				return &clash{first, at}
			}
		}
		p.Add(at)
	}
	return nil
}

// checkCount keeps the sum of all parts' tensors within what a table can hold and the user
// allows.
func checkCount(parts []Part, lim *layout.Limits) (count, most uint64) {
	for _, p := range parts {
		count += uint64(len(p.Index.Tensors))
	}
	return count, lim.WithDefaults().Tensors
}

// Stitch makes one table of the tensors of m's shards. parts are the files that m.Shards names, in
// order. roster is m's if they were decoded with it, else nil.
func Stitch(m *manifest.File, roster *layout.Roster, parts []Part, lim *layout.Limits) (*Table, error) {
	for i, p := range parts {
		if err := m.CheckFormat(i, p.Index.Format); err != nil {
			return nil, err
		}
	}
	n, most := checkCount(parts, lim)
	if n > most {
		return nil, m.TooMany(n, most)
	}
	if tensors, names, ok := roster.Table(); ok {
		m.Held(tensors)
		return share(parts, &Table{tensors, names}), nil
	}
	t := &Table{Tensors: join(parts, n)}
	if c := t.name(); c != nil {
		return nil, m.Twice(&t.Tensors[c.first], &t.Tensors[c.second])
	}
	if err := m.CheckTensors(t.Tensors, t.find); err != nil {
		return nil, err
	}
	return share(parts, t), nil
}

// share makes the indexes of all parts lead to their tensors in t.
func share(parts []Part, t *Table) *Table {
	first := 0
	for _, p := range parts {
		p.Index.Share(t.Tensors, t.Names, first)
		first += len(p.Index.Tensors)
	}
	return t
}
