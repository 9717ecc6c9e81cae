package loader

import (
	"runtime/debug"
	"sync/atomic"
)

// Cached copies are memory of Go's heap: an evicted one stays valid for whoever holds it, so only the
// collector knows when it can go. A server that swaps models would otherwise carry those of the
// last two or three until the next collection.

// returnBytes is the size of a cache from which on its memory is worth a collection. The copies hold
// no pointers, so a collection costs what the rest of the heap costs.
const returnBytes = 16 << 20

var (
	pending    atomic.Int64 // requests for a collection that has not ended
	collection = debug.FreeOSMemory
)

// giveBack returns the memory of a model that is gone to the system, in the background.
// Models that go meanwhile share the next collection.
func giveBack() {
	if pending.Add(1) > 1 {
		return
	}
	go func() {
		for asked := int64(1); asked > 0; {
			asked = pending.Load()
			collection()
			asked = pending.Add(-asked)
		}
	}()
}
