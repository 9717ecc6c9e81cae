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
func (t *Table) find(name string) int {
	return t.Names.Find(layout.HashName(name), func(i int) bool { return string(t.Tensors[i].Name) == name })
}

// stitch makes one table of the count tensors of all parts, which the index of each part then uses too. If two tensors have the same name it
// returns them, and the table is of no use.
func stitch(parts []*layout.Index, count uint64) (t *Table, a, b *layout.Tensor) {
	t = &Table{Tensors: make([]layout.Tensor, 0, count), Names: layout.NewNames(int(count))}
	for file, p := range parts {
		first := len(t.Tensors)
		t.Tensors = append(t.Tensors, p.Tensors...)
		for i := first; i < len(t.Tensors); i++ {
			b = &t.Tensors[i]
			b.File = uint32(file)
			if other := t.Names.Enter(layout.HashNameBytes(b.Name), i, func(i int) bool { return bytes.Equal(t.Tensors[i].Name, b.Name) }); other >= 0 {
				return t, &t.Tensors[other], b
			}
		}
		p.Share(t.Tensors, t.Names, first)
	}
	return t, nil, nil
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
	t, a, b := stitch(parts, n)
	if a != nil {
		return nil, m.DuplicateError(a, b)
	}
	if err := m.CheckTensors(t.Tensors, t.find); err != nil {
		return nil, err
	}
	return t, nil
}
