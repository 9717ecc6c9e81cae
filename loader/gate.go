package loader

import "sync/atomic"

// gate counts the users of something that must outlive them. Once closed it lets nobody
// in, and whoever leaves last is told so.
type gate struct {
	state atomic.Int64 // number of users, plus gateClosed
}

// gateClosed is far above any number of users.
const gateClosed = 1 << 62

// enter adds a user. It returns false if the gate is closed.
func (g *gate) enter() bool { return g.add(false) }

// join adds a user, also to a closed gate while it has other users. Otherwise it returns false.
func (g *gate) join() bool { return g.add(true) }

// add does what join does if join is set, else what enter does.
func (g *gate) add(join bool) bool {
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

// close closes the gate. first is false if it was closed before. last is true if there are no users, so that no leave
// will report the last.
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
