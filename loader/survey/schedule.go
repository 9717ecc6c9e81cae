package survey

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader"
)

// Options tune every function of this package. Nil and zero fields mean the defaults.
type Options struct {
	// Workers is the number of goroutines that work; 0 means GOMAXPROCS. No result depends on
	// it.
	Workers int
	// Filter, if set, selects tensors by name.
	Filter func(name string) bool
	// Progress, if set, is called with the number of bytes of elements read and the number of all bytes
	// to read. A second pass for histograms counts again. One goroutine at a time calls Progress;
	// done never falls.
	Progress func(done, total uint64)
}

// tensors returns the tensors of m that o.Filter selects, in the order of the file.
func (o *Options) tensors(m *loader.Model) []loader.Tensor {
	list := slices.AppendSeq(make([]loader.Tensor, 0, m.Len()), m.Tensors())
	return slices.DeleteFunc(list, func(t loader.Tensor) bool { return o.Filter != nil && !o.Filter(t.Name()) })
}

// A job is the work on one result: on one tensor, say, or on one pair of them. All jobs share the workers.
type job struct {
	workers  chan *worker
	allTaken func() // lets the next job begin, since workers have taken all batches. Further calls do nothing
	reported *parallel.Progress

	mu        sync.Mutex
	uncounted uint64 // bytes that the job is still to count for in Progress
}

// eachBatch calls do for batches 0 to n-1, several at once, each with the buffers of an idle worker. It returns the error of the first
// batch that fails. Once workers have taken all batches, the next job may begin.
func (j *job) eachBatch(n uint64, do func(w *worker, batch uint64) error) error {
	numbers := parallel.Range(n)
	next := func() (batch uint64, ok bool) {
		if batch, ok = numbers(); batch+1 >= n { // the last one
			j.allTaken()
		}
		return batch, ok
	}
	return parallel.ForEach(int(min(n, uint64(cap(j.workers)))), next, func(batch uint64) error {
		w := <-j.workers // for one batch, so that a long tensor does not hold up what is left of the one before
		defer func() { j.workers <- w }()
		return do(w, batch)
	})
}

// progress adds n bytes to Progress. If the job is still to count for fewer bytes, it adds only these. It returns the cause of ctx if ctx has
// ended.
func (j *job) progress(ctx context.Context, n uint64) error {
	j.mu.Lock()
	n = min(n, j.uncounted)
	j.uncounted -= n
	j.mu.Unlock()
	if n > 0 {
		j.reported.Add(n)
	}
	return context.Cause(ctx)
}

// worker is the buffers with which one goroutine at a time does a batch.
type worker struct {
	readerA, readerB reader         // two, for the two tensors of a pair
	counts           *table[uint32] // made when it is first used, and empty between batches
}

// run does n jobs, which read models. do does the job called number, from 0 to n-1, and returns its result, which is nil only with an
// error. run calls deliver with the results in the order of jobs, one call at a time. Before all jobs, run calls bytes once for each job:
// bytes returns how many bytes the job counts for in Progress. If opts.Workers is 0, all cores work.
//
// While workers do the last batches of a job, the next one begins. So files are read about in order, and all workers share a large tensor.
// run fails if ctx ends. It fails if a job or a call of deliver fails, which ends the other jobs. It also fails if a model is closed or one
// of its files has changed, before or meanwhile.
func run[R any](ctx context.Context, opts *Options, n int, bytes func(number int) uint64, do func(ctx context.Context, j *job, number int) (*R, error), deliver func(*R) error, models ...*loader.Model) error {
	if err := checkModels(models...); err != nil {
		return err
	}
	workers := opts.Workers
	if workers <= 0 {
		workers = parallel.Cores()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := make(chan *worker, workers)
	for range workers {
		idle <- new(worker)
	}
	progress := parallel.Progress{Report: opts.Progress}
	sizes := make([]uint64, n) // in bytes
	for number := range sizes {
		sizes[number] = bytes(number)
		progress.Total += sizes[number]
	}

	// turn is locked until workers have taken all batches of a job. If the job calls eachBatch several times, the batches of the first call count.
	var turn sync.Mutex
	numbers := parallel.Range(uint64(n))
	next := func() (number uint64, ok bool) {
		if number, ok = numbers(); ok {
			turn.Lock()
		}
		return number, ok && ctx.Err() == nil
	}
	var delivering sync.Mutex
	results, due := make([]*R, n), 0 // results that came before their turn, and the number of the next one to deliver
	doJob := func(number uint64) error {
		j := &job{workers: idle, allTaken: sync.OnceFunc(turn.Unlock), reported: &progress, uncounted: sizes[number]}
		defer j.allTaken()                // if the job has no batches, or one has failed, nothing else has called it
		if j.uncounted <= batchElements { // nobody waits for a job of few batches
			j.allTaken()
		}
		result, err := do(ctx, j, int(number))
		if err = cmp.Or(context.Cause(ctx), err); err != nil { // the job may have stopped halfway: it has no result
			cancel(err)
			return err
		}
		_ = j.progress(ctx, math.MaxUint64) // what its batches have not counted
		delivering.Lock()
		defer delivering.Unlock()
		results[number] = result
		for ; due < n && results[due] != nil && ctx.Err() == nil; due++ {
			result, results[due] = results[due], nil
			if err := deliver(result); err != nil {
				cancel(err)
			}
		}
		return context.Cause(ctx)
	}
	err := parallel.ForEach(workers, next, doJob)
	return cmp.Or(err, context.Cause(ctx), checkModels(models...))
}

// checkModels returns the error of Model.Changed if one of models is closed, or if one of its files has changed since it was opened.
func checkModels(models ...*loader.Model) error {
	for _, m := range models {
		if err := m.Changed(); err != nil {
			return err
		}
	}
	return nil
}
