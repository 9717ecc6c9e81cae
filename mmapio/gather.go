package mmapio

import (
	"cmp"
	"fmt"
	"math"
	"sync"
)

// Trusted is the number of bytes of memory that are taken on a file's word. More are taken
// once the file's last byte has been read, and as the bytes arrive.
const Trusted = 16 << 20

// growth is how many times as much memory is taken as has arrived.
const growth = 4

// Gathering is memory for n elements that are read piece by piece, in any order. Until a
// quarter of them has arrived, every piece has memory of its own. Then memory for all is
// taken and the pieces move there. A source that has less than it claims thus costs five
// times what it has, or [Trusted]. Its methods may be called concurrently.
type Gathering[T Number] struct {
	n uint64

	mu      sync.Mutex
	arrived uint64
	pieces  []piece[T]
	whole   []T // nil until memory for all is taken
}

type piece[T Number] struct {
	at     uint64
	values []T
}

// NewGathering returns a Gathering of n elements. If they take more than [Trusted] bytes, it
// asks probe whether all are sure to exist, and then takes memory for all at once. More than
// the machine's memory is ErrTooLarge.
func NewGathering[T Number](n uint64, probe func() (sure bool, err error)) (*Gathering[T], error) {
	g := &Gathering[T]{n: n}
	if n > g.trusted() {
		sure, err := probe()
		if err != nil {
			return nil, err
		}
		if most := cmp.Or(Memory(), math.MaxInt) / uint64(elementSize[T]()); n > most {
			return nil, g.tooLarge()
		}
		if !sure {
			return g, nil
		}
	}
	return g, g.take()
}

// tooLarge returns the error that no memory can hold all elements.
func (g *Gathering[T]) tooLarge() error {
	return fmt.Errorf("%w: %d × %d bytes", ErrTooLarge, g.n, elementSize[T]())
}

// trusted returns how many elements take Trusted bytes.
func (g *Gathering[T]) trusted() uint64 {
	return Trusted / uint64(elementSize[T]())
}

// Room returns memory for the n elements from element at on, which the caller fills and hands
// to Arrived.
func (g *Gathering[T]) Room(at, n uint64) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.whole != nil {
		return g.whole[at:][:n:n]
	}
	return Aligned[T](int(n))
}

// Arrived takes the elements from element at on, in memory b from Room. It reports whether they
// were the last to come. The error is ErrTooLarge.
func (g *Gathering[T]) Arrived(at uint64, b []T) (all bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived += uint64(len(b))
	switch {
	case g.whole == nil && uint64(len(b)) == g.n:
		g.whole = b
	case g.whole == nil:
		g.pieces = append(g.pieces, piece[T]{at, b})
		if g.arrived < g.n/growth {
			break
		}
		if err := g.take(); err != nil {
			return false, err
		}
		for _, p := range g.pieces {
			copy(g.whole[p.at:], p.values)
		}
		g.pieces = nil
	case len(b) > 0 && &g.whole[at] != &b[0]: // taken before the whole was
		copy(g.whole[at:], b)
	}
	return g.arrived == g.n, nil
}

// Whole returns all elements, once they have arrived. The first is on a 64-byte boundary.
func (g *Gathering[T]) Whole() []T { return g.whole }

// take allocates memory for all elements, if the address space can hold them.
func (g *Gathering[T]) take() (err error) {
	defer func() {
		recover() // the runtime's own limit is lower than an int's
		if g.whole == nil {
			err = g.tooLarge()
		}
	}()
	g.whole = Aligned[T](int(g.n))
	return nil
}

// next returns how many elements to read at element at, with all before it arrived.
func (g *Gathering[T]) next(at uint64) uint64 {
	const unit = 1 << 16 // a multiple of every block
	if g.whole != nil {
		return g.n - at
	}
	n := min(max(g.trusted(), (growth-1)*at), (g.n+growth-1)/growth-at)
	return min((n+unit-1)/unit*unit, g.n-at)
}

// Gather returns n elements. read fills dst with those from element at on; it is called in their order, with as many as
// memory may be taken for. Memory is taken as by [NewGathering].
func Gather[T Number](n uint64, probe func() (sure bool, err error), read func(dst []T, at uint64) error) ([]T, error) {
	g, err := NewGathering[T](n, probe)
	if err != nil {
		return nil, err
	}
	for at, all := uint64(0), false; !all; {
		dst := g.Room(at, g.next(at))
		if err := read(dst, at); err != nil {
			return nil, err
		}
		if all, err = g.Arrived(at, dst); err != nil {
			return nil, err
		}
		at += uint64(len(dst))
	}
	return g.Whole(), nil
}
