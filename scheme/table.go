package scheme

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// A Table lists the quantized weights of a checkpoint.
type Table struct {
	// Of has, for every stored tensor, one more than the position of the weight that it is a part of, or
	// 0. It is nil if there are no weights.
	Of []uint32
	// Hidden counts the parts other than codes, once the table is complete.
	Hidden int
	// Wants has the positions of the tensors whose content decides about shapes and was not at hand. The caller
	// puts their bytes into Contents, in the same order, and they must not change until Complete returns.
	Wants    []uint32
	Contents [][]byte
	// Unmatched counts the layers that the configuration has parameters for and the checkpoint does not have.
	// UnmatchedPath is the first of them.
	Unmatched     int
	UnmatchedPath string

	entries  []entry
	parts    []Part   // of all weights
	results  []result // the first says nothing
	newNames []byte   // names that no tensor has
	pending  []pending
	limits   layout.Limits
	source   Source
	conf     *Config // once it was asked for
	tensors  []layout.Tensor
	names    *layout.Names
	renames  []renaming // those of weights, one for the same ends
	ends     *nameEnds  // of all names, once they were asked for
	forms    formCache
	finding  weight // memory for the one whose form is being found
}

// entry is a Weight in few bytes and without pointers: opening a checkpoint makes tens of thousands.
type entry struct {
	first   uint32 // position of the first part in Table.parts
	result  uint32 // position in Table.results
	newName uint32 // position of the name in Table.newNames, if the renaming has an end
	parts   uint8
	renaming
}

// renaming is one more than the position of the pattern that gives a weight a name other than its codes', or 0.
type renaming uint8

// nameEnds returns the ends of the codes' name and of the weight's.
func (n renaming) nameEnds() (codes, name string) {
	if n == 0 {
		return "", ""
	}
	return patterns[n-1].codes, patterns[n-1].name
}

// A result is what was found out about weights that are alike: shape and form, or an error.
type result struct {
	shape []int
	form  *Form
	err   error
}

// pending is a weight whose shape waits for contents, which begin at a place in Table.Wants.
type pending struct {
	match
	entry uint32
	wants uint32
}

// Len returns the number of weights. No table has none.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.entries)
}

// Weight returns the i-th weight, without allocating. It must not be modified.
func (t *Table) Weight(i int) Weight {
	e := &t.entries[i]
	r := &t.results[e.result]
	return Weight{Name: t.nameOf(e), Shape: r.shape, Parts: t.partsOf(e), Err: r.err, Form: r.form}
}

// Codes returns the position of the tensor that holds the codes of the i-th weight.
func (t *Table) Codes(i int) uint32 { return t.parts[t.entries[i].first].Tensor }

// Renames reports whether the name of the i-th weight is not that of its codes.
func (t *Table) Renames(i int) bool { return t.entries[i].renaming != 0 }

// Err returns why the i-th weight cannot be decoded, or nil.
func (t *Table) Err(i int) error { return t.errOf(&t.entries[i]) }

func (t *Table) errOf(e *entry) error { return t.results[e.result].err }

func (t *Table) partsOf(e *entry) []Part { return t.parts[e.first:][:e.parts:e.parts] }

// codesOf returns the tensor that holds the codes of e.
func (t *Table) codesOf(e *entry) *layout.Tensor { return &t.tensors[t.parts[e.first].Tensor] }

// nameOf returns the name of e: its codes', or the same stem with another end.
func (t *Table) nameOf(e *entry) []byte {
	name := t.codesOf(e).Name
	codes, end := e.nameEnds()
	n := len(name) - len(codes) + len(end)
	if end != "" {
		name = t.newNames[e.newName:]
	}
	return name[:n:n]
}

// Complete finishes the table, once Contents has all that Wants asks for. It must be called once.
func (t *Table) Complete() {
	for i := range t.pending {
		p := &t.pending[i]
		if e := &t.entries[p.entry]; t.errOf(e) == nil {
			n := 0
			for _, part := range t.partsOf(e) {
				if p.pattern.wants(part) {
					n++
				}
			}
			p.contents = t.Contents[p.wants:][:n]
			t.shape(e, &p.match)
		}
	}
	t.pending, t.Wants, t.Contents = nil, nil, nil
	for i := range t.entries {
		e := &t.entries[i]
		if e.renaming != 0 {
			t.checkName(e, i)
		}
		if t.errOf(e) != nil {
			t.dropParts(e)
		}
		t.Hidden += int(e.parts) - 1
	}
	t.forms, t.finding, t.ends, t.source = formCache{}, weight{}, nil, nil
}

// checkName refuses e, the i-th weight, if one before it has its name.
func (t *Table) checkName(e *entry, i int) {
	if t.errOf(e) != nil || len(t.renames) < 2 {
		return
	}
	for j := range t.called(string(t.nameOf(e))) {
		if j < i {
			t.fail(e, misfit("tensor %s has codes of the same weight", layout.Quote(t.codesOf(&t.entries[j]).Name)))
			return
		}
	}
}

// dropParts takes all parts but the codes from e, which is refused.
func (t *Table) dropParts(e *entry) {
	parts := t.partsOf(e)
	for _, p := range parts[1:] {
		if t.Of[p.Tensor] == t.Of[parts[0].Tensor] {
			t.Of[p.Tensor] = 0
		}
	}
	e.parts, e.renaming = 1, 0
}

// note adds a result, and returns its position.
func (t *Table) note(r result) uint32 {
	t.results = append(t.results, r)
	return uint32(len(t.results) - 1)
}

// fail notes why e cannot be decoded, unless another error is noted.
func (t *Table) fail(e *entry, err error) {
	if t.errOf(e) == nil {
		e.result = t.note(result{err: err})
	}
}

// Find returns the position of the weight called name, if no tensor is called so. It allocates nothing.
func (t *Table) Find(name string) (i int, ok bool) {
	for i := range t.called(name) {
		return i, true
	}
	return 0, false
}

// called yields the weights called name whose codes have another name, and no error.
func (t *Table) called(name string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range t.renames {
			codesEnd, end := n.nameEnds()
			stem, ok := strings.CutSuffix(name, end)
			if !ok {
				continue
			}
			for p := t.names.Probe(layout.HashNameParts(stem, codesEnd)); ; {
				codes, ok := p.Next()
				if !ok {
					break
				}
				if t.Of[codes] == 0 {
					continue
				}
				i := int(t.Of[codes] - 1)
				if e := &t.entries[i]; t.Codes(i) == uint32(codes) && t.errOf(e) == nil && string(t.nameOf(e)) == name && !yield(i) {
					return
				}
			}
		}
	}
}

// rename gives e, the last weight, another name than that of its codes: the same stem with the end that n has.
func (t *Table) rename(e *entry, n renaming, stem []byte) {
	e.renaming = n
	codes, end := n.nameEnds()
	if !slices.ContainsFunc(t.renames, func(n renaming) bool { a, b := n.nameEnds(); return a == codes && b == end }) {
		t.renames = append(t.renames, n)
	}
	if end == "" { // the codes' name begins so
		return
	}
	if t.newNames == nil {
		t.newNames = make([]byte, 0, cap(t.entries)*(len(stem)+len(end)+4)) // numbers grow
	}
	e.newName = uint32(len(t.newNames))
	t.newNames = append(append(t.newNames, stem...), end...)
}

// lookup returns the tensor that has a name with this hash.
func (t *Table) lookup(name []byte, hash uint64) (uint32, bool) {
	for p := t.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			return 0, false
		}
		if bytes.Equal(t.tensors[i].Name, name) {
			return uint32(i), true
		}
	}
}
