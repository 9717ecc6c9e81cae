// Package flight lets one caller do work that several ask for at once, while the others wait.
package flight

import (
	"context"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
)

// Group runs fills, one at a time for a key. The zero value is ready for use.
//
// A fill runs in its caller's goroutine, under its caller's context. Callers that wait for a fill share its value, and an
// error that it returned by itself. If its caller's context has ended the fill, or the fill has panicked, one of the waiting
// callers fills instead: one caller's deadline is no other's failure. A panic goes on in the caller whose fill
// panicked, and nowhere else.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*sharedCall[V]
}

// sharedCall is a fill and the callers that wait for it. The caller that holds filling first writes the result. Callers
// that hold it afterwards read it.
type sharedCall[V any] struct {
	callers int            // guarded by Group.mu
	filling parallel.Mutex // held by the caller that fills, or that reads the result
	done    bool
	value   V
	err     error
}

// Do calls fill and returns its result. If another caller is filling key, Do waits and shares that result. If that
// fill was ended by its context or a panic, Do calls its own fill. If ctx ends while Do waits, it returns the cause.
func (g *Group[K, V]) Do(ctx context.Context, key K, fill func(ctx context.Context) (V, error)) (value V, err error) {
	call := g.join(key)
	if err := call.filling.Lock(ctx); err != nil {
		g.leave(key, call, false)
		return value, err
	}
	defer call.filling.Unlock()                      // also after a panic of fill: the next caller fills
	defer func() { g.leave(key, call, call.done) }() // before others get the result: they may call Do again
	if call.done {
		return call.value, call.err
	}
	if ctx.Err() != nil {
		return value, context.Cause(ctx)
	}
	value, err = fill(ctx)
	if err == nil || ctx.Err() == nil { // a result, or an error that ctx is not to blame for
		call.done, call.value, call.err = true, value, err
	}
	return value, err
}

// join returns the call of key that is under way, with this caller counted. If there is none, it makes one.
func (g *Group[K, V]) join(key K) *sharedCall[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	call := g.calls[key]
	if call == nil {
		call = &sharedCall[V]{filling: parallel.NewMutex()}
		if g.calls == nil {
			g.calls = make(map[K]*sharedCall[V])
		}
		g.calls[key] = call
	}
	call.callers++
	return call
}

// leave counts one caller of call less. It removes call from the map of calls after the last one, or if it is done: callers
// that have joined it share its result, and later ones begin another.
func (g *Group[K, V]) leave(key K, call *sharedCall[V], done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	call.callers--
	if (done || call.callers == 0) && g.calls[key] == call {
		delete(g.calls, key)
	}
}
