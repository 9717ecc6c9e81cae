package loader

import "sync/atomic"

// gate counts the users of something that must outlive them. Once closed it lets nobody
// in, and whoever leaves last is told so.
type gate struct {
	state atomic.Int64 // number of users, plus gateClosed
}

const gateClosed = 1 << 62

// enter lets a user in. It reports false if the gate is closed. With join set it lets a user in to a closed gate too, while
// somebody else is inside.
func (g *gate) enter(join bool) bool {
	for {
		s := g.state.Load()
		if s == gateClosed || s > gateClosed && !join {
			return false
		}
		if g.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// leave ends one enter. last is true for the last user of a closed gate.
func (g *gate) leave() (last bool) { return g.state.Add(-1) == gateClosed }

// close shuts the gate. first is false if it was shut before. last is true if nobody is inside,
// so that no leave will report it.
func (g *gate) close() (first, last bool) {
	for {
		s := g.state.Load()
		if s >= gateClosed {
			return false, false
		}
		if g.state.CompareAndSwap(s, s|gateClosed) {
			return true, s == 0
		}
	}
}

// inside counts the users.
func (g *gate) inside() int { return int(g.state.Load() &^ gateClosed) }

func (g *gate) closed() bool { return g.state.Load() >= gateClosed }
