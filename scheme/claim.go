package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A hint remembers where the last lookup of a name's end began and ended, and how far that lay behind the lookup before.
type hint struct{ from, to, step uint32 }

// find returns the tensor called stem followed by end, a part beside tensor from. ok is false without one, or if the
// source ignores it. It tries where the last one with this end suggests, and then looks the name up.
func (f *finder) find(from uint32, stem []byte, end string) (uint32, bool) {
	h := &f.near[0]
	if n := len(end); n > 1 { // two ends that share a hint cost lookups
		h = &f.near[(16*uint(end[n-2])+uint(n))%uint(len(f.near))]
	}
	i, ok := uint32(0), false
	// It may lie as far behind from as the last one with this end did, or one step behind the last one.
	for _, at := range [...]uint32{from + h.to - h.from, h.to + h.step} {
		if ok = at < uint32(len(f.tensors)) && isCalled(f.tensors[at].Name, stem, end); ok {
			i = at
			break
		}
	}
	if !ok {
		i, ok = f.lookupEnd(stem, end)
	}
	if ok {
		*h = hint{from, i, i - h.to}
	}
	return i, ok && !f.source.Ignored(f.tensors[i].Name)
}

// isCalled reports whether name is stem followed by end.
func isCalled(name, stem []byte, end string) bool {
	return len(name) == len(stem)+len(end) && string(name[len(stem):]) == end && bytes.Equal(name[:len(stem)], stem)
}

// lookupEnd returns the tensor called stem followed by end. ok is false without one.
func (f *finder) lookupEnd(stem []byte, end string) (tensor uint32, ok bool) {
	f.name = append(append(f.name[:0], stem...), end...)
	return f.lookup(f.name, layout.HashNameBytes(f.name))
}

func hasSuffix(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// reject adds codes as a weight that cannot be decoded, with its error.
func (f *finder) reject(codes uint32, err error) { f.refuse(codes, f.note(result{err: err})) }

// refuse adds codes as a weight that cannot be decoded. why is the position of its error in f.results.
func (f *finder) refuse(codes, why uint32) {
	f.begin(1, 1+len(f.tensors)/2)
	f.parts = append(f.parts, Part{Codes, codes})
	e := f.next(1)
	e.result = why
	f.claim(e)
}

// begin allocates memory for a number of weights with a number of parts each, unless an earlier call did.
func (f *finder) begin(parts, weights int) {
	if f.Of == nil {
		f.entries, f.parts = make([]entry, 0, weights), slices.Grow(f.parts, parts*weights)
		f.Of = make([]uint32, len(f.tensors))
	}
}

// next adds a weight, whose parts are the last ones of f.parts, as many as parts says. It has the name of its codes.
func (f *finder) next(parts int) *entry {
	first := len(f.parts) - parts
	f.entries = append(f.entries, entry{first: uint32(first), parts: uint8(parts)})
	return &f.entries[len(f.entries)-1]
}

// claim notes in f.Of that the parts of e, the last weight, belong to it. If one belongs to another weight already,
// e gets an error.
func (f *finder) claim(e *entry) {
	at := uint32(len(f.entries))
	for _, p := range f.partsOf(e) {
		other := f.Of[p.Tensor]
		switch {
		case other == 0:
			f.Of[p.Tensor] = at
		case other != at:
			f.fail(e, misfit("tensor %s is a part of %s too", layout.Quote(f.tensors[p.Tensor].Name), layout.Quote(f.nameOf(&f.entries[other-1]))))
		}
	}
}
