package parallel

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
)

// JobBytes is the most bytes of a job of [WriteInOrder], and the size of its memory.
const JobBytes = 256 << 10

// Jobs returns the number of jobs of [WriteInOrder] that n bytes take.
func Jobs(n uint64) uint64 { return (n + JobBytes - 1) / JobBytes }

// Job is bytes to produce in the memory Into, for the place I in the order.
type Job struct {
	I    uint64
	Into []byte

	n     int
	err   error
	ended chan struct{} // closed when its worker has left it
}

// Done ends the job with n bytes, or with an error.
func (j *Job) Done(n int, err error) { j.n, j.err = n, err }

var errLeft = errors.New("no worker is left that does the next job")

// InOrder hands jobs that are done to use, in their order and in the caller's goroutine, while workers do the next ones. Each worker
// ranges over its jobs and ends each with Done. next begins a job, and reports whether others follow. There must be one.
//
// A job's memory comes from free, to which use returns it, or somebody later. The first error of a job, in their order,
// ends InOrder, as does the cause of ctx. Workers have ended when it returns, panics or ends its goroutine.
func InOrder(ctx context.Context, workers int, free <-chan *Job, next func(j *Job) (more bool), work func(jobs iter.Seq[*Job]), use func(j *Job) error) error {
	ctx, end := context.WithCancelCause(ctx)
	g := Group{Stop: func() { end(nil) }} // by a panic, which Wait repeats
	defer g.Wait()                        // nobody reads the source once this is over, however it ends
	defer end(nil)
	begun := make(chan *Job, max(1, cap(free))) // jobs in their order; closed when all workers have ended
	var taking sync.Mutex                       // who gets a number gets memory too: the next job never waits for later jobs
	i, more := uint64(0), true
	take := func() *Job {
		taking.Lock()
		defer taking.Unlock()
		if !more {
			return nil
		}
		select {
		case j := <-free:
			*j = Job{I: i, Into: j.Into, ended: make(chan struct{})}
			more = next(j)
			i++
			begun <- j
			return j
		case <-ctx.Done():
			return nil
		}
	}
	for range workers {
		g.Go(func() error {
			work(func(yield func(*Job) bool) {
				for j := take(); j != nil; j = take() {
					goesOn := yield(j)
					close(j.ended)
					if !goesOn {
						return
					}
				}
			})
			return nil
		})
	}
	go func() {
		g.workers.Wait()
		close(begun)
	}()
	for j := range begun { // workers end with ctx too
		select {
		case <-j.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if j.err != nil {
			return j.err
		}
		if err := use(j); err != nil {
			return err
		}
	}
	if more {
		return cmp.Or(context.Cause(ctx), errLeft)
	}
	return nil
}

// jobs has jobs that are not in use, with memory for [WriteInOrder].
var jobs = sync.Pool{New: func() any { return &Job{Into: make([]byte, JobBytes)} }}

// jobsPerCore is how far the cores may be ahead of the writer. They have work while a write
// takes its time, and the bytes of the jobs stay in their caches.
const jobsPerCore = 4

// maxCores is the most cores that do jobs. No writer keeps up with more, and jobs that wait take 16 MiB at most.
const maxCores = 16

// WriteInOrder writes the bytes of jobs 0 to n-1 to w from the caller's goroutine, while all cores do the next jobs. The first error in that
// order ends it. Every worker ranges over its jobs and ends each with Done.
func WriteInOrder(w io.Writer, n uint64, work func(jobs iter.Seq[*Job])) error {
	if n == 0 {
		return nil
	}
	cores := min(uint64(Workers(n)), maxCores)
	slots := min(cores*jobsPerCore, n)
	free := make(chan *Job, slots)
	for range slots {
		free <- jobs.Get().(*Job)
	}
	next := func(j *Job) bool { return j.I+1 < n }
	err := InOrder(context.Background(), int(cores), free, next, work, func(j *Job) error {
		_, err := w.Write(j.Into[:j.n])
		free <- j
		return err
	})
	for range len(free) {
		jobs.Put(<-free)
	}
	return err
}
