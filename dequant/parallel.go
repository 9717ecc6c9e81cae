package dequant

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
)

// ExpandParallel is Expand on all of GOMAXPROCS, where dst is large enough to gain by it. The
// caller's goroutine takes part, and the call returns when all have finished.
//
// A panic in a worker reappears in the caller, and workers inherit the caller's
// debug.SetPanicOnFault: a caller that survives faults of a mapping still does.
func ExpandParallel(d layout.DType, dst []float32, src []byte) error {
	if !fits(d, len(dst), len(src)) {
		return expandTensor(d, dst, src, parallel)
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
	var job job
	work := func() {
		for {
			hi := int(job.next.Add(parallelGrain))
			lo := hi - parallelGrain
			if lo >= n || job.stop.Load() {
				return
			}
			if err := f(lo, min(hi, n)); err != nil {
				job.fail(err)
			}
		}
	}
	faults := panicsOnFault()
	for range workers - 1 {
		job.Go(func() {
			defer job.catch()
			debug.SetPanicOnFault(faults)
			work()
		})
	}
	func() {
		defer job.catch()
		work()
	}()
	job.Wait()
	if job.panic != nil {
		panic(job.panic)
	}
	return job.err
}

// A job is work handed out from a counter. The first failure, an error or a panic, stops it.
type job struct {
	sync.WaitGroup
	next  atomic.Int64
	stop  atomic.Bool
	once  sync.Once
	err   error
	panic any
}

func (j *job) fail(err error) {
	j.stop.Store(true)
	j.once.Do(func() { j.err = err })
}

func (j *job) catch() {
	if p := recover(); p != nil {
		j.stop.Store(true)
		j.once.Do(func() { j.panic = p })
	}
}

// panicsOnFault reads the calling goroutine's setting, which the runtime only tells to
// those who set it.
func panicsOnFault() bool {
	on := debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(on)
	return on
}
