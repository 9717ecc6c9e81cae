package dequant

import (
	"runtime"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// ExpandParallel is Expand on all of GOMAXPROCS, where dst is large enough to gain by it. The
// caller's goroutine takes part, and the call returns when all have finished.
//
// A panic in a worker reappears in the caller: one that survives faults of a mapping still does.
func ExpandParallel(d layout.DType, dst []float32, src []byte) error {
	if !fits(d, len(dst), len(src)) {
		return expandTensor(d, dst, src, allCores)
	}
	large := isLarge(len(dst), len(src))
	if len(dst) < parallelMin {
		expand(d, dst, src, large) // without the closure, which would be allocated
		return nil
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	return inParallel(len(dst), func(lo, hi int) error {
		expand(d, dst[lo:hi], src[lo/elems*size:hi/elems*size], large)
		return nil
	})
}

// inParallel calls f for consecutive ranges of at most parallelGrain of n elements, on
// several goroutines if n is large, and returns one of the errors.
func inParallel(n int, f func(lo, hi int) error) error {
	workers := min(runtime.GOMAXPROCS(0), (n+parallelGrain-1)/parallelGrain)
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
