package bw2l

import "slices"

// arrayList holds arrays in pieces, so that it grows without moving what it has.
type arrayList struct {
	pieces [][]array
	n      int
}

func (l *arrayList) add(a array) {
	last := len(l.pieces) - 1
	if last < 0 || len(l.pieces[last]) == cap(l.pieces[last]) {
		l.pieces = append(l.pieces, make([]array, 0, min(max(8, l.n), 1<<10)))
		last++
	}
	l.pieces[last] = append(l.pieces[last], a)
	l.n++
}

// take removes the first array.
func (l *arrayList) take() array {
	first := l.pieces[0]
	if l.n--; len(first) == 1 {
		l.pieces = l.pieces[1:]
	} else {
		l.pieces[0] = first[1:]
	}
	return first[0]
}

// grown has room for one more element. Where append would take a quarter more, it takes
// twice the memory: what a decoder allocates in all then stays close to what it needs.
func grown[T any](s []T) []T {
	if len(s) == cap(s) {
		return slices.Grow(s, max(8, len(s)))
	}
	return s
}
