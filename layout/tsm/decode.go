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
	m, err := scan(in, limits)
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

// checkAcyclic returns an error if a node reads its own output, directly or through others. It goes through the graph depth first. The path
// is a slice and no recursion, because a graph can be as deep as it has nodes.
func (m *module) checkAcyclic() error {
	const done = -1
	place := make([]int, len(m.nodes)) // of a node on the path, from 1 on; done if it has been left; 0 if it has not been seen
	read := make([]int, len(m.nodes))  // how many of a node's inputs have been gone to
	var path []int
	for start := range m.nodes {
		for next := start; ; {
			if place[next] == 0 {
				path = append(path, next)
				place[next] = len(path)
			}
			last := len(path) - 1
			for last >= 0 && read[path[last]] == len(m.nodes[path[last]].inputs) {
				place[path[last]] = done
				last--
			}
			if path = path[:last+1]; last < 0 {
				break
			}
			node := path[last]
			n := &m.nodes[node]
			next = n.inputs[read[node]]
			if place[next] > 0 {
				return layout.Errorf(layout.TSM, n.inputsAt+minIndex*uint64(read[node]), "inputs", layout.ErrInvalid,
					"node %d, %s, reads its own output: a cycle of %d nodes", next, layout.Quote(m.nodes[next].name), len(path)-place[next]+1)
			}
			read[node]++
		}
	}
	return nil
}

// index describes the tensors of a file of size bytes. It names them after their nodes and params, or all by position if names would be
// too long or occur twice.
func (m *module) index(size uint64, lim layout.Limits) (*layout.Index, error) {
	const maxPerByte = 4 // bytes of names for each byte of the file
	m.chooseNames()
	if m.nameBytes() <= maxPerByte*size {
		ix, err := m.build(size, lim)
		if !errors.Is(err, layout.ErrDuplicate) {
			return ix, err
		}
	}
	m.byPosition = true
	return m.build(size, lim)
}

// build makes the index of a file of size bytes. It fails if two tensors get the same name, or a limit is exceeded.
func (m *module) build(size uint64, lim layout.Limits) (*layout.Index, error) {
	b := layout.NewBuilder(layout.TSM, size, uint64(m.tensors), "memory", lim)
	b.Section("header", 0, 0, headerSize)
	var name []byte
	for i := range m.nodes {
		for j, p := range m.nodes[i].params {
			for k, f := range p.fields {
				name = m.appendName(name[:0], i, j, k)
				t := b.Next()
				t.Name, t.Shape, t.DType, t.Offset, t.Stored = name, f.shape, f.dtype, f.offset, f.stored
				if err := b.Add(f.at); err != nil {
					return nil, err
				}
			}
		}
	}
	return b.Finish()
}
