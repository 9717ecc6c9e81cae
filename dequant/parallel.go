package dequant

import (
	"runtime"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
)

// inParallel calls f for consecutive ranges of at most parallelGrain of n elements, and returns
// one of the errors. As many goroutines as cores says take part, if n is large.
func inParallel(cores, n int, f func(lo, hi int) error) error {
	if cores == AllCores {
		cores = runtime.GOMAXPROCS(0)
	}
	workers := min(cores, (n+parallelGrain-1)/parallelGrain)
	if n < parallelMin || workers < 2 {
		return f(0, n)
	}
	var next atomic.Int64
	work := func() error {
		for {
			hi := int(next.Add(parallelGrain))
			lo := hi - parallelGrain
			if lo >= n {
				return nil
			}
			if err := f(lo, min(hi, n)); err != nil {
				return err
			}
		}
	}
	g := parallel.Group{Stop: func() { next.Store(int64(n)) }}
	for range workers - 1 {
		g.Go(work)
	}
	g.Here(work)
	return g.Wait()
}
