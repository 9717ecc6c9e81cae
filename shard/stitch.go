package shard

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// Table is the tensors of several files as if they were one's.
type Table struct {
	// Tensors of all files, in the files' order; File is the file's position. The files' indexes share them.
	Tensors []layout.Tensor
	// Names finds them: a Probe's index is one into Tensors.
	Names *layout.Names
}

// find returns the position of the tensor called name, or -1.
func (t *Table) find(name []byte) int { return t.Names.Find(layout.HashNameBytes(name), t.named(name)) }

func (t *Table) named(name []byte) func(i int) bool {
	return func(i int) bool { return bytes.Equal(t.Tensors[i].Name, name) }
}

// join returns the tensors of all parts, which number count.
func join(parts []*layout.Index, count uint64) []layout.Tensor {
	list := make([]layout.Tensor, 0, count)
	for i, p := range parts {
		at := len(list)
		list = append(list, p.Tensors...)
		for ; at < len(list); at++ {
			list[at].File = uint32(i)
		}
	}
	return list
}

// name makes the table of t's names. It returns the first two tensors that have the same name.
func (t *Table) name() (a, b *layout.Tensor) {
	t.Names = layout.NewNames(len(t.Tensors))
	for i := range t.Tensors {
		b = &t.Tensors[i]
		if first := t.Names.Enter(layout.HashNameBytes(b.Name), i, t.named(b.Name)); first >= 0 {
			return &t.Tensors[first], b
		}
	}
	return nil, nil
}

// checkCount keeps the sum of all parts' tensors within what a table can hold and the user
// allows.
func checkCount(parts []*layout.Index, lim *layout.Limits) (count, most uint64) {
	for _, p := range parts {
		count += uint64(len(p.Tensors))
	}
	return count, lim.WithDefaults().Tensors
}

// Stitch makes one table of the tensors of m's shards. parts are the indexes of the files that m.Shards
// names, in order.
func Stitch(m *manifest.File, parts []*layout.Index, lim *layout.Limits) (*Table, error) {
	for i, p := range parts {
		if err := m.CheckFormat(i, p.Format); err != nil {
			return nil, err
		}
	}
	n, most := checkCount(parts, lim)
	if n > most {
		return nil, m.TooMany(n, most)
	}
	t := &Table{Tensors: join(parts, n)}
	if a, b := t.name(); a != nil {
		return nil, m.Twice(a, b)
	}
	if err := m.CheckTensors(t.Tensors, t.find); err != nil {
		return nil, err
	}
	return share(parts, t), nil
}

// share makes the indexes of all parts lead to their tensors in t.
func share(parts []*layout.Index, t *Table) *Table {
	first := 0
	for _, p := range parts {
		p.Share(t.Tensors, t.Names, first)
		first += len(p.Tensors)
	}
	return t
}
