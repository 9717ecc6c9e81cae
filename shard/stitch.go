package shard

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// Table lists the tensors of several files as one file's index does.
type Table struct {
	// Tensors of all files, in the files' order; File is the file's position. The files' indexes share them.
	Tensors []layout.Tensor
	// Names finds tensors by name: records are Tensors.
	Names *layout.Names
}

// find returns the position of the tensor called name, or -1.
func (t *Table) find(name []byte) int { return t.Names.Find(layout.HashNameBytes(name), t.named(name)) }

// named returns a function that reports whether tensor i is called name.
func (t *Table) named(name []byte) func(i int) bool {
	return func(i int) bool { return bytes.Equal(t.Tensors[i].Name, name) }
}

// join returns the count tensors of all parts. It sets their File to the part's number.
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

// enterNames sets t.Names. If two tensors have the same name it returns them, and Names is incomplete.
func (t *Table) enterNames() (a, b *layout.Tensor) {
	t.Names = layout.NewNames(len(t.Tensors))
	for i := range t.Tensors {
		b = &t.Tensors[i]
		if first := t.Names.Enter(layout.HashNameBytes(b.Name), i, t.named(b.Name)); first >= 0 {
			return &t.Tensors[first], b
		}
	}
	return nil, nil
}

// countTensors returns the number of tensors of all parts, and the number that lim allows.
func countTensors(parts []*layout.Index, lim *layout.Limits) (count, limit uint64) {
	for _, p := range parts {
		count += uint64(len(p.Tensors))
	}
	return count, lim.WithDefaults().Tensors
}

// Stitch makes one table of the tensors of m's shards. parts are the indexes of the files that m.Shards names, in
// order. It fails if a part has another format, if there are more tensors than lim allows, or if two have the same
// name. It also fails if a tensor is not in the shard that m names for it.
func Stitch(m *manifest.File, parts []*layout.Index, lim *layout.Limits) (*Table, error) {
	for i, p := range parts {
		if err := m.CheckFormat(i, p.Format); err != nil {
			return nil, err
		}
	}
	n, limit := countTensors(parts, lim)
	if n > limit {
		return nil, m.TooManyError(n, limit)
	}
	t := &Table{Tensors: join(parts, n)}
	if a, b := t.enterNames(); a != nil {
		return nil, m.DuplicateError(a, b)
	}
	if err := m.CheckTensors(t.Tensors, t.find); err != nil {
		return nil, err
	}
	return share(parts, t), nil
}

// share makes the index of each part use its tensors in t and the names of t. It returns t.
func share(parts []*layout.Index, t *Table) *Table {
	first := 0
	for _, p := range parts {
		p.Share(t.Tensors, t.Names, first)
		first += len(p.Tensors)
	}
	return t
}
