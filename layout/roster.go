package layout

import (
	"bytes"
	"sync/atomic"
)

// Roster says which tensors the files of a model hold before these are decoded, because a manifest lists them. Decoders
// put the tensors into one table of all files, under the manifest's names: nothing is copied, hashed or filed
// twice. A file that holds anything else is decoded as if there were no roster. Several files may be decoded at a time.
type Roster struct {
	names   *NameList
	fileOf  []uint32    // of each name
	starts  []int       // of each file's tensors in tensors, and the end
	tensors []Tensor    // room for those of all files
	places  []uint32    // of each name, one more than its tensor's position in tensors, or 0
	strayed atomic.Bool // a file holds something else
}

// NewRoster returns the roster of so many files. Names are UTF-8 without NUL bytes. fileOf has the position of the file
// of each.
func NewRoster(names *NameList, fileOf []uint32, files int) *Roster {
	r := &Roster{names: names, fileOf: fileOf, starts: make([]int, files+1), tensors: make([]Tensor, len(fileOf)), places: make([]uint32, len(fileOf))}
	for _, f := range fileOf {
		r.starts[f+1]++
	}
	for i := range files {
		r.starts[i+1] += r.starts[i]
	}
	return r
}

// Limits returns lim for the decoder of a file, whose tensors then go into the roster's table. A nil r returns lim.
func (r *Roster) Limits(lim *Limits, file int) *Limits {
	if r == nil {
		return lim
	}
	l := lim.WithDefaults()
	l.expected = &expected{Roster: r, file: uint32(file)}
	return &l
}

// Table returns the tensors of all files, and the table that finds their names. Their File is the file's position. ok is
// false unless all files have been decoded, and hold exactly the tensors of the roster. A nil r is of no file.
func (r *Roster) Table() (tensors []Tensor, names *Names, ok bool) {
	if r == nil || r.strayed.Load() {
		return nil, nil, false
	}
	same := true // order in the files and in the list
	for i, place := range r.places {
		if place == 0 {
			return nil, nil, false
		}
		same = same && place == uint32(i+1)
	}
	if same {
		return r.tensors, r.names.table, true
	}
	return r.tensors, r.names.table.renumbered(r.places), true
}

// expected is what a roster says of the tensors of one file.
type expected struct {
	*Roster
	file uint32
	next int // the name that probably comes next
}

// room returns memory for the file's tensors, for at most so many.
func (e *expected) room(most int) []Tensor {
	start, end := e.starts[e.file], e.starts[e.file+1]
	return e.tensors[start:start:min(end, start+most)]
}

// take gives t, the file's tensor i, the roster's copy of its name and the file's position. It reports false if the
// name is not on the roster, in another file, or taken.
func (e *expected) take(t *Tensor, i int) bool {
	at := e.next
	// Most writers list the tensors in the order of the files, and nothing is searched for.
	if at == len(e.places) || !bytes.Equal(e.names.At(at), t.Name) {
		at = e.names.Find(t.Name)
	}
	if at < 0 || e.fileOf[at] != e.file || e.places[at] != 0 {
		return false
	}
	t.Name, t.File = e.names.At(at), e.file
	e.places[at] = uint32(e.starts[e.file] + i + 1)
	e.next = at + 1
	return true
}
