// Package flight lets one caller do work that several ask for at once, while the others wait.
package flight

import (
	"context"
	"sync"
)

// Group runs fills, one at a time for a key. The zero value is ready for use.
//
// A fill runs in its caller's goroutine, under its caller's context. Callers that wait for a fill share its value, and an
// error that it returned by itself. If its caller's context has ended the fill, or the fill has panicked, one of the waiting
// callers fills instead: one caller's deadline is no other's failure. A panic goes on in the caller whose fill
// panicked, and nowhere else.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	turns map[K]*turn[V]
}

// turn is a fill and those who wait for it. Its result is written by the caller that has taken the token, and
// read by those that take it afterwards.
type turn[V any] struct {
	callers int           // guarded by Group.mu
	token   chan struct{} // taken by the caller that fills, or that reads the result
	done    bool
	value   V
	err     error
}

// Do calls fill and returns its result. If another caller is filling key, Do waits and shares that result. If that
// fill was ended by its context or a panic, Do calls its own fill. If ctx ends while Do waits, it returns the cause.
func (g *Group[K, V]) Do(ctx context.Context, key K, fill func(ctx context.Context) (V, error)) (value V, err error) {
	t := g.join(key)
	defer g.leave(key, t)
	select {
	case <-t.token:
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
	defer func() { t.token <- struct{}{} }() // the next caller takes it, also after a panic of fill
	if t.done {
		return t.value, t.err
	}
	if ctx.Err() != nil {
		return value, context.Cause(ctx)
	}
	value, err = fill(ctx)
	if err == nil || ctx.Err() == nil { // a result, or an error that ctx is not to blame for
		t.done, t.value, t.err = true, value, err
		g.end(key, t)
	}
	return value, err
}

// join returns the turn of key, with this caller counted. If there is none, it makes one whose token is free.
func (g *Group[K, V]) join(key K) *turn[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.turns[key]
	if t == nil {
		t = &turn[V]{token: make(chan struct{}, 1)}
		t.token <- struct{}{} // there for the first caller to take
		if g.turns == nil {
			g.turns = make(map[K]*turn[V])
		}
		g.turns[key] = t
	}
	t.callers++
	return t
}

// leave counts one caller of t less, and removes t from the map of turns after the last one.
func (g *Group[K, V]) leave(key K, t *turn[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.callers--; t.callers == 0 && g.turns[key] == t {
		delete(g.turns, key)
	}
}

// end removes t, the turn of key, from the map of turns: later callers begin another, while those in t share its
// result.
func (g *Group[K, V]) end(key K, t *turn[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns[key] == t {
		delete(g.turns, key)
	}
}
