package tsm

import (
	"errors"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded TSM module. It implements [layout.File], [layout.Grapher] and
// [layout.Summarizer].
type File struct {
	index *layout.Index
	lim   layout.Limits
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Grapher    = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
)

// Decode reads a module, all of it but the tensors' bytes. Tensors are in the order of
// the file. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s. ErrInvalid and ErrDuplicate mean a module that breaks the rules of
// the package comment, ErrTruncated a file that is too short, ErrLimit something past lim.
// ErrUnsupported means a .sta container, or a type that the format does not know or cannot store.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	limits := lim.WithDefaults()
	m, err := scan(in, limits, false)
	if err != nil {
		return nil, err
	}
	if err := m.checkAcyclic(); err != nil {
		return nil, err
	}
	index, err := m.index(in.Size(), limits)
	if err != nil {
		return nil, err
	}
	return &File{index: index, lim: limits}, nil
}

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// index names the tensors and describes them.
func (m *module) index(size uint64, lim layout.Limits) (*layout.Index, error) {
	const most = 4 // bytes of names for each byte of the file
	m.chooseNames()
	if m.nameBytes() <= most*size {
		ix, err := m.build(size, lim, false)
		if !errors.Is(err, layout.ErrDuplicate) {
			return ix, err
		}
	}
	return m.build(size, lim, true)
}

func (m *module) build(size uint64, lim layout.Limits, byPosition bool) (*layout.Index, error) {
	b, err := layout.NewBuilder(layout.TSM, size, uint64(len(m.fields)), "memory", lim)
	if err != nil {
		return nil, err
	}
	b.Section("header", 0, 0, headerSize)
	called := names{module: m, byPosition: byPosition}
	dims := m.dims
	var p, f int
	for i := range m.nodes {
		for j := range m.nodes[i].params {
			for k := range m.params[p].fields {
				t, x := b.Next(), &m.fields[f]
				t.Name = called.tensor(i, int(j), p, int(k))
				t.DType, t.Offset, t.Stored = x.dtype, x.offset, x.stored
				t.Shape, dims = dims[:x.rank:x.rank], dims[x.rank:]
				if err := b.Add(x.at()); err != nil {
					return nil, err
				}
				f++
			}
			p++
		}
	}
	return b.Finish()
}
