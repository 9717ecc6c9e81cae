package tsm

// list grows without its elements being moved, so that it costs little more memory than
// they take, and pointers to them stay good.
type list[T any] struct {
	chunks []*[chunkLen]T
	n      int
}

const chunkLen = 1 << chunkBits

const chunkBits = 6

// add appends a zero element and returns it.
func (l *list[T]) add() *T {
	at := l.n % chunkLen
	if at == 0 {
		l.chunks = append(l.chunks, new([chunkLen]T))
	}
	l.n++
	return &l.chunks[len(l.chunks)-1][at]
}

func (l *list[T]) at(i int) *T { return &l.chunks[uint(i)>>chunkBits][uint(i)%chunkLen] }
