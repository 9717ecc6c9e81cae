package loader

import "sync/atomic"

// gate counts the users of something, such as memory, that may be released only when nobody uses it any more.
// Once it is closed, enter fails, and the leave of the last user returns true.
type gate struct {
	usersAndClosed atomic.Int64 // the number of users, and the bit gateClosed once the gate is closed
}

// gateClosed is a bit above the bits of any number of users. A closed gate without users has exactly this value.
const gateClosed = 1 << 62

// enter adds a user. It returns false if the gate is closed.
func (g *gate) enter() bool { return g.addIf(func(s int64) bool { return s < gateClosed }) }

// enterIfUsed adds a user, also to a closed gate that still has users. It returns false if the gate is closed and has no users.
func (g *gate) enterIfUsed() bool { return g.addIf(func(s int64) bool { return s != gateClosed }) }

// addIf calls allowed with the value of usersAndClosed. If that returns true, addIf adds a user and returns true. Otherwise it
// returns false.
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

// close closes the gate. first is true if no earlier call has closed it. last is true if first is true and the gate has no users: then no
// leave will return true.
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
