package loader

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensormap/tensormap/internal/nearest"
	"github.com/tensormap/tensormap/layout"
)

// Tensor finds a tensor by name, without allocating. It fails with ErrNotFound if there is none, and with ErrClosed once
// the model is closed. The error names the file and the tensor, and if there is none, similar names.
func (m *Model) Tensor(name string) (Tensor, error) {
	if m.gate.closed() {
		return Tensor{}, m.closedError()
	}
	return m.lookup(name, nil)
}

// lookup returns the tensor called name: a stored one, or else a logical one. The tensor belongs to the lease l, which
// may be nil. It fails with a *notFoundError.
func (m *Model) lookup(name string, l *Lease) (Tensor, error) {
	if i := m.names.Find(layout.HashName(name), func(i int) bool { return string(m.tensors[i].Name) == name }); i >= 0 {
		return m.byStoredName(i, l), nil
	}
	if m.weightTable != nil {
		if i, ok := m.weightTable.Find(name); ok { // a logical tensor whose name no stored one has
			return Tensor{m, l, m.weightTable.Codes(i), true}, nil
		}
	}
	return Tensor{}, &notFoundError{m, name}
}

// notFoundError says that no tensor has a name. It looks for names that may be meant when its text is
// read, because many callers only ask whether there is a tensor.
type notFoundError struct {
	model *Model
	name  string
}

// Error returns the names of file and tensor, the text of ErrNotFound, and a hint. The hint lists names that are like the one asked
// for. But if the model has the codes of that weight and cannot decode them, the hint says why. Codes of x.weight have a name such
// as x.qweight or x.weight_packed.
func (e *notFoundError) Error() string {
	listed := e.model.eachListed(nil, nil)
	names := func(yield func(string) bool) {
		listed(func(t Tensor) bool { return yield(t.Name()) })
	}
	hint := nearest.Hint(names, e.name)
	stem := strings.TrimSuffix(e.name, ".weight")
	for t := range listed {
		if rest, ok := strings.CutPrefix(t.Name(), stem); ok && strings.IndexAny(rest, "._") == 0 && t.Problem() != nil {
			hint = fmt.Sprintf("; its codes, %q, are not decoded: %v", t.Name(), t.schemeWeight().Err)
			break
		}
	}
	return fmt.Sprintf("%s: tensor %q: %v%s", e.model.path, e.name, ErrNotFound, hint)
}

// Unwrap returns ErrNotFound.
func (e *notFoundError) Unwrap() error { return ErrNotFound }

// byStoredName returns the tensor that has the name of stored tensor i. If i has the codes of a logical tensor with the same name, that is
// the logical tensor. Otherwise it is the stored tensor. The tensor belongs to the lease l, which may be nil.
func (m *Model) byStoredName(i int, l *Lease) Tensor {
	w, isPart := m.weightTable.WeightOf(uint32(i))
	return Tensor{m, l, uint32(i), isPart && m.weightTable.Codes(w) == uint32(i) && !m.weightTable.Renames(w)}
}

// listedAt returns the tensor that lists show in the place of stored tensor i. If i has the codes of a logical tensor, that is the logical
// tensor. If i is a part of no logical tensor, that is the stored tensor itself. ok is false if i is any other part, such as scales: lists
// leave it out. The tensor belongs to the lease l, which may be nil.
func (m *Model) listedAt(i int, l *Lease) (t Tensor, ok bool) {
	w, isPart := m.weightTable.WeightOf(uint32(i))
	if isPart && m.weightTable.Codes(w) != uint32(i) {
		return t, false
	}
	return Tensor{m, l, uint32(i), isPart}, true
}

// Len returns the number of tensors that Tensors lists.
func (m *Model) Len() int {
	if m.weightTable == nil {
		return len(m.tensors)
	}
	return len(m.tensors) - m.weightTable.Hidden // parts other than codes: a logical tensor counts once, by its codes
}

// Tensors iterates over all tensors in the order of the file's own table. It ends at once when the model
// is closed. For other orders, see [slices.SortedFunc] and [ByName].
func (m *Model) Tensors() iter.Seq[Tensor] { return m.eachListed(m.gate.closed, nil) }

// eachListed iterates over the tensors as lists show them: a logical tensor in place of its parts. The tensors belong to the lease
// l, or to no lease if l is nil. The iteration ends once closed returns true. A nil closed never ends it.
func (m *Model) eachListed(closed func() bool, l *Lease) iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i := range m.tensors {
			t, ok := m.listedAt(i, l)
			if !ok {
				continue
			}
			if closed != nil && closed() || !yield(t) {
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
	if t.model == l.model {
		t.lease = l
	}
	return t
}

// Tensors does what Model.Tensors does, through the lease.
func (l *Lease) Tensors() iter.Seq[Tensor] { return l.model.eachListed(l.gate.closed, l) }

// StoredTensors iterates over pairs of tensors, one for each stored tensor, in the order of the files. The first of a pair is the
// stored tensor. The second is the logical tensor that it is a part of, or else the stored tensor again. The iteration ends once the
// lease is released.
func (l *Lease) StoredTensors() iter.Seq2[Tensor, Tensor] {
	return func(yield func(stored, listed Tensor) bool) {
		m := l.model
		for i := range m.tensors {
			stored := Tensor{m, l, uint32(i), false}
			listed := stored
			if w, isPart := m.weightTable.WeightOf(stored.index); isPart {
				listed = Tensor{m, l, m.weightTable.Codes(w), true}
			}
			if l.gate.closed() || !yield(stored, listed) {
				return
			}
		}
	}
}

// allStored returns all stored tensors of the model, by file and offset.
func (m *Model) allStored() []Tensor {
	tensors := make([]Tensor, len(m.tensors))
	for i := range tensors {
		tensors[i] = Tensor{model: m, index: uint32(i)}
	}
	sortStored(tensors)
	return tensors
}

// ByName orders tensors by ascending name (bytewise), for [slices.SortedFunc].
func ByName(a, b Tensor) int { return strings.Compare(a.Name(), b.Name()) }
