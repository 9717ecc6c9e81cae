package loader

import (
	"runtime"
	"sync"

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
	var wg sync.WaitGroup
	for range min(uint64(runtime.GOMAXPROCS(0)), n) {
		wg.Go(func() {
			sc := takeScratch()
			defer sc.give()
			for i, ok := take(); ok; i, ok = take() {
				if err := mmapio.Guard(func() error { return part(sc, i) }); err != nil {
					fail(i, err)
				}
			}
		})
	}
	wg.Wait()
	return work.err
}
