package loader

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Model is an open model: its tensors by name, and the mapping they live in.
type Model struct {
	opts    Options
	files   []file
	tensors []layout.Tensor // in file order
	names   *layout.Names
	gate    gate
	cache   cache
	blocks  blockTables

	byName func() []int32 // tensors by sorted name, made on first use

	metadata   atomic.Pointer[metadata] // nil until it is asked for
	metadataMu sync.Mutex               // held while it is parsed
}

// metadata is what came of parsing it.
type metadata struct {
	keys   layout.Metadata
	scales map[string]layout.Quant
	err    error
}

// file is one file of a model.
type file struct {
	model   *Model
	path    string
	mapping *mmapio.Mapping
	layout  layout.File
	index   *layout.Index
	// align is the alignment of the file's first byte in memory, as far as any dtype
	// cares: less than 8 only where OpenBytes was given odd memory.
	align int
}

// Tensor finds a tensor by name, without allocating. The error is ErrNotFound or
// ErrClosed, wrapped with the names of file and tensor.
func (m *Model) Tensor(name string) (Tensor, error) {
	if m.gate.closed() {
		return Tensor{}, m.closedError()
	}
	return m.lookup(name, nil)
}

func (m *Model) lookup(name string, l *Lease) (Tensor, error) {
	for p := m.names.Probe(layout.HashName(name)); ; {
		i, ok := p.Next()
		if !ok {
			return Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.files[0].path, name, ErrNotFound)
		}
		if string(m.tensors[i].Name) == name {
			return m.tensor(i, l), nil
		}
	}
}

// tensor is the handle of tensor i.
func (m *Model) tensor(i int, l *Lease) Tensor {
	desc := &m.tensors[i]
	return Tensor{desc, &m.files[desc.File], l}
}

// Len is the number of tensors.
func (m *Model) Len() int { return len(m.tensors) }

// Tensors iterates over all tensors in the order of the file's own table. After Close it
// yields nothing.
func (m *Model) Tensors() iter.Seq[Tensor] { return m.all(m.gate.closed, nil) }

// Sorted iterates over all tensors by ascending name (bytewise). After Close it yields
// nothing.
func (m *Model) Sorted() iter.Seq[Tensor] { return m.sorted(m.gate.closed, nil) }

func (m *Model) all(closed func() bool, l *Lease) iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i := range m.tensors {
			if closed() || !yield(m.tensor(i, l)) {
				return
			}
		}
	}
}

func (m *Model) sorted(closed func() bool, l *Lease) iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for _, i := range m.byName() {
			if closed() || !yield(m.tensor(int(i), l)) {
				return
			}
		}
	}
}

func (m *Model) sortNames() []int32 {
	order := make([]int32, len(m.tensors))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(m.tensors[a].Name, m.tensors[b].Name) })
	return order
}

// Format is the format of the model's files.
func (m *Model) Format() layout.Format { return m.files[0].index.Format }

// Files lists the files of the model. Their Layout gives access to what only their
// format has, by type assertion to its package's File.
func (m *Model) Files() []FileInfo {
	infos := make([]FileInfo, len(m.files))
	for i := range m.files {
		f := &m.files[i]
		infos[i] = FileInfo{Path: f.path, Size: f.mapping.Size(), Layout: f.layout}
	}
	return infos
}

// FileInfo describes one file of a model. It stays valid after Close, but for methods of
// Layout that take an Input. What Layout hands out belongs to the model and must not be
// modified.
type FileInfo struct {
	Path   string
	Size   uint64
	Layout layout.File
}

// Metadata is what the files say about the model, parsed on first use. It must not be
// modified.
func (m *Model) Metadata() (layout.Metadata, error) {
	if !m.gate.enter() {
		return nil, m.closedError()
	}
	defer m.leave()
	return m.parsedMetadata()
}

func (m *Model) parsedMetadata() (layout.Metadata, error) {
	md := m.parseMetadata()
	return md.keys, md.err
}

// parseMetadata parses the metadata, once however often that fails: only a file that could
// not be read is worth another try. The caller holds the mapping.
func (m *Model) parseMetadata() *metadata {
	if md := m.metadata.Load(); md != nil {
		return md
	}
	m.metadataMu.Lock()
	defer m.metadataMu.Unlock()
	if md := m.metadata.Load(); md != nil {
		return md
	}
	f := &m.files[0]
	md := new(metadata)
	md.err = mmapio.Guard(func() (err error) {
		if md.keys, err = f.layout.Metadata(f.mapping); err != nil {
			return err
		}
		if s, ok := f.layout.(layout.Scaler); ok {
			md.scales, err = s.Scales(md.keys)
		}
		return err
	})
	if md.err != nil {
		md = &metadata{err: fmt.Errorf("%s: %w", f.path, md.err)}
	}
	if !unreadable(md.err) {
		m.metadata.Store(md)
	}
	return md
}

// unreadable tells an error about bytes that could not be had from one about what they say.
func unreadable(err error) bool {
	var path *fs.PathError
	return errors.Is(err, mmapio.ErrFault) || errors.As(err, &path)
}

// Close lets go of the files once no lease and no running call needs them. It does not
// wait for these. A second Close does nothing and answers ErrClosed.
func (m *Model) Close() error {
	first, last := m.gate.close()
	if !first {
		return m.closedError()
	}
	if last {
		return m.release()
	}
	return nil
}

func (m *Model) leave() {
	if m.gate.leave() {
		m.release() // nobody is left to hear of an error
	}
}

func (m *Model) release() (err error) {
	m.cache.clear()
	for i := range m.files {
		err = errors.Join(err, m.files[i].mapping.Close())
	}
	return err
}

func (m *Model) closedError() error { return fmt.Errorf("%s: %w", m.files[0].path, ErrClosed) }
