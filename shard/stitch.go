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

// stitch makes one table of the tensors of all shards, which the index of each shard then uses too. It fails with tooMany if there are more
// tensors than lim allows, and with duplicate if a and b have the same name.
func stitch(shards []*layout.Index, lim *layout.Limits, tooMany func(count, limit uint64) error, duplicate func(a, b *layout.Tensor) error) (*Table, error) {
	count, limit := uint64(0), lim.WithDefaults().Tensors
	for _, p := range shards {
		count += uint64(len(p.Tensors))
	}
	if count > limit {
		return nil, tooMany(count, limit)
	}
	t := &Table{Tensors: make([]layout.Tensor, 0, count), Names: layout.NewNames(int(count))}
	for file, p := range shards {
		first := len(t.Tensors)
		t.Tensors = append(t.Tensors, p.Tensors...)
		for i := first; i < len(t.Tensors); i++ {
			b := &t.Tensors[i]
			b.File = uint32(file)
			isNamed := func(i int) bool { return bytes.Equal(t.Tensors[i].Name, b.Name) }
			if other := t.Names.Enter(layout.HashNameBytes(b.Name), i, isNamed); other >= 0 {
				return nil, duplicate(&t.Tensors[other], b)
			}
		}
		p.Share(t.Tensors, t.Names, first)
	}
	return t, nil
}

// Stitch makes one table of the tensors of m's shards. shards are the indexes of the files that m.Shards names, in
// order. It fails if a shard has another format, if there are more tensors than lim allows, or if two have the same
// name. It also fails if a tensor is not in the shard that m names for it.
func Stitch(m *manifest.File, shards []*layout.Index, lim *layout.Limits) (*Table, error) {
	for i, p := range shards {
		if err := m.CheckFormat(i, p.Format); err != nil {
			return nil, err
		}
	}
	t, err := stitch(shards, lim, m.TooManyError, m.DuplicateError)
	if err == nil {
		err = m.CheckTensors(t.Tensors, t.find)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}
