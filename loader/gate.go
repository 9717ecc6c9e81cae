package loader

import "sync/atomic"

// gate counts the users of something that must outlive them. Once closed it lets nobody
// in, and whoever leaves last is told so.
type gate struct {
	usersAndClosed atomic.Int64 // number of users, plus gateClosed once it is closed: gateClosed alone if all have left then
}

// gateClosed is a bit far above any number of users.
const gateClosed = 1 << 62

// enter adds a user. It returns false if the gate is closed.
func (g *gate) enter() bool { return g.addIf(func(s int64) bool { return s < gateClosed }) }

// enterIfUsed adds a user, unless the gate is closed and has no users: then it returns false. It is for whom another user lets in.
func (g *gate) enterIfUsed() bool { return g.addIf(func(s int64) bool { return s != gateClosed }) }

// addIf adds a user and returns true if allowed reports true for the gate's usersAndClosed. Otherwise it returns false.
func (g *gate) addIf(allowed func(state int64) bool) bool {
	for {
		s := g.usersAndClosed.Load()
		if !allowed(s) {
			return false
		}
		if g.usersAndClosed.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// leave removes a user. last is true if the gate is closed and this was the last user.
func (g *gate) leave() (last bool) { return g.usersAndClosed.Add(-1) == gateClosed }

// close closes the gate. first is false if it was closed before. last is true if there are no users, so that no leave
// will report the last.
func (g *gate) close() (first, last bool) {
	for {
		s := g.usersAndClosed.Load()
		if s >= gateClosed {
			return false, false
		}
		if g.usersAndClosed.CompareAndSwap(s, s|gateClosed) {
			return true, s == 0
		}
	}
}

// users returns the number of users.
func (g *gate) users() int { return int(g.usersAndClosed.Load() &^ gateClosed) }

// closed reports whether the gate is closed.
func (g *gate) closed() bool { return g.usersAndClosed.Load() >= gateClosed }
