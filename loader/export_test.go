package loader

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// What the tests of package loader_test need to see.
const (
	ReadStep = content.LocalRead / 4 // values of float32
	CRCChunk = stepBytes
)

// OpenMapped opens the model of a mapping.
func OpenMapped(path string, mapping *mmapio.Mapping, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	return open(context.Background(), mappedFile(path, mapping), folderOf(path, o.NoMap), o)
}

// MappingOf returns the memory of m's first file, of no bytes if it has none.
func MappingOf(m *Model) *mmapio.Mapping {
	if memory := m.files[0].data.Mapping(); memory != nil {
		return memory
	}
	return mmapio.FromReaderAt(nil, 0)
}

// Pins is how many cache entries a lease holds.
func Pins(l *Lease) int {
	return l.model.cache.Pinned(&l.pins) + l.model.cache.Pinned(&l.warmedPins)
}

// Reorder gives t's rows another order, from now on.
func Reorder(t Tensor, order []uint32) {
	_, cols := t.Rows()
	v := t.state().values
	v.Uncached = &values.Rows{Values: v.Uncached, Cols: cols, Order: order}
}
