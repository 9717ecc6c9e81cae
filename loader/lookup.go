package loader

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

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
			return Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.path, name, ErrNotFound)
		}
		if string(m.tensors[i].Name) == name {
			return m.handle(&m.tensors[i], l), nil
		}
	}
}

// handle returns the handle of one of m's tensors.
func (m *Model) handle(desc *layout.Tensor, l *Lease) Tensor {
	files := m.files
	if l != nil && l.files != nil {
		files = l.files
	}
	return Tensor{desc, &files[desc.File], l}
}

// Len returns the number of tensors.
func (m *Model) Len() int { return len(m.tensors) }

// Tensors iterates over all tensors in the order of the file's own table. After Close it
// yields nothing. For other orders, see [slices.SortedFunc] and [ByName].
func (m *Model) Tensors() iter.Seq[Tensor] { return m.all(m.gate.closed, nil) }

func (m *Model) all(closed func() bool, l *Lease) iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i := range m.tensors {
			if closed() || !yield(m.handle(&m.tensors[i], l)) {
				return
			}
		}
	}
}

// Tensor does what Model.Tensor does, through the lease.
func (l *Lease) Tensor(name string) (Tensor, error) {
	if l.gate.closed() {
		return Tensor{}, l.wrap(ErrClosed)
	}
	return l.model.lookup(name, l)
}

// Of returns t through the lease, without looking it up: t may have been taken from the model or from
// another lease, when weights were bound. A tensor of another model is returned as it is.
func (l *Lease) Of(t Tensor) Tensor {
	if t.desc == nil || t.file.model != l.model {
		return t
	}
	return l.model.handle(t.desc, l)
}

// Tensors does what Model.Tensors does, through the lease.
func (l *Lease) Tensors() iter.Seq[Tensor] { return l.model.all(l.gate.closed, l) }

// ByName orders tensors by ascending name (bytewise), for [slices.SortedFunc].
func ByName(a, b Tensor) int { return strings.Compare(a.Name(), b.Name()) }
