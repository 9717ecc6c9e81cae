package loader

import (
	"runtime"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/mmapio"
)

// onAllCores does parts 0 to n-1 of some work, each core taking the next one. Where parts
// fail, the error is that of the first.
func onAllCores(n uint64, part func(sc *scratch, i uint64) error) error {
	var work struct {
		sync.Mutex
		next, failed uint64
		err          error
	}
	work.failed = n
	take := func() (i uint64, ok bool) {
		work.Lock()
		defer work.Unlock()
		i = work.next
		work.next++
		return i, i < work.failed
	}
	fail := func(i uint64, err error) {
		work.Lock()
		defer work.Unlock()
		if i < work.failed {
			work.failed, work.err = i, err
		}
	}
	g := parallel.Group{Stop: func() { fail(0, nil) }}
	for range min(uint64(runtime.GOMAXPROCS(0)), n) {
		g.Go(func() error {
			sc := takeScratch()
			defer sc.give()
			for i, ok := take(); ok; i, ok = take() {
				if err := mmapio.Guard(func() error { return part(sc, i) }); err != nil {
					fail(i, err)
				}
			}
			return nil
		})
	}
	g.Wait()
	return work.err
}

// inParallel runs n copies of work, each guarded against faults of mappings. Once one has
// failed, stop lets the others find nothing to do.
func inParallel(n int, stop func(), work func() error) error {
	g := parallel.Group{Stop: stop}
	for range n {
		g.Go(func() error { return mmapio.Guard(work) })
	}
	return g.Wait()
}
