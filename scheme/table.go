package scheme

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
)

// A Table lists the quantized weights of a checkpoint.
type Table struct {
	// Hidden counts the parts other than codes, which lists of tensors leave out.
	Hidden int
	// Unmatched counts the layers that the configuration has parameters for and the checkpoint does not have.
	// UnmatchedPath is the first of them.
	Unmatched     int
	UnmatchedPath string

	tensors []layout.Tensor
	weights []Weight
	// weightOf has a number for every stored tensor: 1 plus the index in weights of the weight that the tensor is a part of. For a
	// tensor that is part of no weight, the number is 0. weightOf is nil if there are no weights.
	weightOf []uint32
	renamed  *layout.Names // finds the weights whose name is not the name of their codes; nil without any
}

// Len returns the number of weights. A nil table has none.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.weights)
}

// Weight returns the i-th weight, without allocating. It must not be modified.
func (t *Table) Weight(i int) Weight { return t.weights[i] }

// WeightOf returns the index i in t of the weight that a stored tensor is a part of: see Weight. tensor is the tensor's position in the
// checkpoint. ok is false if the tensor is part of no weight, or if t is nil.
func (t *Table) WeightOf(tensor uint32) (i int, ok bool) {
	if t == nil || t.weightOf == nil || t.weightOf[tensor] == 0 {
		return 0, false
	}
	return int(t.weightOf[tensor] - 1), true
}

// Codes returns the position of the tensor that holds the codes of the i-th weight: its first part.
func (t *Table) Codes(i int) uint32 { return t.weights[i].Parts[0].Tensor }

// Renames reports whether the name of the i-th weight is not the name of its codes.
func (t *Table) Renames(i int) bool { return !bytes.Equal(t.weights[i].Name, t.codesName(i)) }

// codesName returns the name of the tensor that holds the codes of the i-th weight.
func (t *Table) codesName(i int) []byte { return t.tensors[t.Codes(i)].Name }

// Err returns why the i-th weight cannot be decoded, or nil.
func (t *Table) Err(i int) error { return t.weights[i].Err }

// Find returns the position of the weight called name, if its codes have another name. ok is false without one. It allocates nothing.
func (t *Table) Find(name string) (i int, ok bool) {
	if t.renamed == nil {
		return 0, false
	}
	i = t.renamed.Find(layout.HashName(name), func(i int) bool { return string(t.weights[i].Name) == name })
	return i, i >= 0
}

// finish prepares the table for readers, after all weights were found and checked. It indexes each decoded weight whose name is not the name of
// its codes. It refuses such a weight if an indexed weight has the same name. A refused weight loses all parts but its codes, whose name it gets.
func (t *Table) finish() {
	for i := range t.weights {
		w := &t.weights[i]
		if w.Err == nil && t.Renames(i) {
			if t.renamed == nil {
				t.renamed = layout.NewNames(len(t.weights))
			}
			other := t.renamed.Enter(layout.HashNameBytes(w.Name), i, func(other int) bool { return bytes.Equal(t.weights[other].Name, w.Name) })
			if other >= 0 {
				w.Err = invalidf("tensor %s has codes of the same weight", layout.Quote(t.codesName(other)))
			}
		}
		if w.Err != nil {
			w.Name, w.Parts = t.codesName(i), w.Parts[:1]
		}
		t.Hidden += len(w.Parts) - 1
	}
	clear(t.weightOf) // tensors that only refused weights had in addition to their codes are plain now
	for i, w := range t.weights {
		for _, p := range w.Parts {
			if t.weightOf[p.Tensor] == 0 { // else the codes of a refused weight are a part of one before it
				t.weightOf[p.Tensor] = uint32(i + 1)
			}
		}
	}
}
