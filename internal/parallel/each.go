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
	var q struct {
		sync.Mutex
		over   bool // no item is left to hand out
		taken  int
		failed int   // the number of the first item that failed, counted from 1
		err    error // its error
	}
	take := func() (item T, at int, ok bool) {
		q.Lock()
		defer q.Unlock()
		if !q.over {
			item, ok = next()
			q.over = !ok
			q.taken++
		}
		return item, q.taken, ok
	}
	worker := func() error {
		item, at, ok := take() // here, so that no item waits for a busy core
		if !ok {
			return nil
		}
		err := work(func(yield func(T) bool) {
			for ok && yield(item) {
				item, at, ok = take()
			}
		})
		q.Lock()
		defer q.Unlock()
		if err != nil && (q.err == nil || at < q.failed) {
			q.failed, q.err = at, err
		}
		return err
	}
	NewTeam(worker, func() {
		q.Lock()
		defer q.Unlock()
		q.over = true
	}).Run(workers)
	return q.err
}

// ForEach calls do with each item that next returns, by up to workers goroutines at once. It ends and fails as [Each] does.
func ForEach[T any](workers int, next func() (item T, ok bool), do func(item T) error) error {
	return Each(workers, next, func(items iter.Seq[T]) error {
		for item := range items {
			if err := do(item); err != nil {
				return err
			}
		}
		return nil
	})
}

// Range returns a function that returns 0 to n-1, for [Each].
func Range(n uint64) func() (i uint64, ok bool) {
	next := uint64(0)
	return func() (uint64, bool) {
		next++
		return next - 1, next <= n
	}
}
