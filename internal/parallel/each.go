package parallel

import (
	"iter"
	"sync"
)

// Each runs up to workers calls of work at once, and hands out the items that next returns, until it reports false.
// Each call of work ranges over items: the next one that no other call has got. Without an item left work is not
// called. One call runs in the caller's goroutine. After an error no further items are handed out. Each returns the
// error of the first item that fails, in the order of next. Panics reach the caller as [Group.Wait] says.
//
// One goroutine at a time calls next.
func Each[T any](workers int, next func() (item T, ok bool), work func(items iter.Seq[T]) error) error {
	q := queue[T]{next: next}
	g := Group{Stop: q.stop}
	worker := func() error {
		item, at, ok := q.take() // here, so that no item waits for a busy core
		if !ok {
			return nil
		}
		err := work(func(yield func(T) bool) {
			for ok && yield(item) {
				item, at, ok = q.take()
			}
		})
		q.fail(at, err)
		return err
	}
	for range workers - 1 {
		g.Go(worker)
	}
	g.Here(worker)
	g.Wait()
	return q.err
}

// Range returns a function that returns 0 to n-1, for [Each].
func Range(n uint64) func() (i uint64, ok bool) {
	next := uint64(0)
	return func() (uint64, bool) {
		next++
		return next - 1, next <= n
	}
}

// queue hands out items to workers, and collects their errors.
type queue[T any] struct {
	mu     sync.Mutex
	next   func() (T, bool) // nil once there is nothing left
	taken  int
	failed int   // the number of the first item that failed
	err    error // its error
}

// take returns the next item and its number, counted from 1. ok is false if no item is left.
func (q *queue[T]) take() (item T, at int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		return item, q.taken, false
	}
	if item, ok = q.next(); !ok {
		q.next = nil
	}
	q.taken++
	return item, q.taken, ok
}

// fail notes that item number at failed with err, unless err is nil.
func (q *queue[T]) fail(at int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil && (q.err == nil || at < q.failed) {
		q.failed, q.err = at, err
	}
}

// stop makes take hand out no more items.
func (q *queue[T]) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = nil
}
