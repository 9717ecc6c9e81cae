package loader

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensormap/tensormap/internal/nearest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Tensor finds a tensor by name, without allocating. The error is ErrNotFound or
// ErrClosed, wrapped with the names of file and tensor. The text of ErrNotFound asks for names that
// may be meant.
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
			return Tensor{}, &notFoundError{m.path, name, m.tensors}
		}
		if string(m.tensors[i].Name) == name {
			return m.handle(&m.tensors[i], l), nil
		}
	}
}

// notFoundError says that no tensor has a name. It looks for those that may be meant when its text is
// read, because many callers only ask whether there is a tensor.
type notFoundError struct {
	path, name string
	tensors    []layout.Tensor
}

func (e *notFoundError) Error() string {
	names := func(yield func(string) bool) {
		for i := range e.tensors {
			if !yield(mmapio.String(e.tensors[i].Name)) {
				return
			}
		}
	}
	return fmt.Sprintf("%s: tensor %q: %v%s", e.path, e.name, ErrNotFound, nearest.Hint(names, e.name))
}

func (e *notFoundError) Unwrap() error { return ErrNotFound }

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
