package survey

import (
	"context"
	"iter"
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
	// Progress, if set, is called with the number of bytes of elements read and that of all bytes
	// to read. A second pass for histograms counts again. One goroutine at a time calls Progress;
	// done never falls.
	Progress func(done, total uint64)
}

// tensors yields the tensors of m that o.Filter selects, in the order of the file.
func (o *Options) tensors(m *loader.Model) iter.Seq[loader.Tensor] {
	return func(yield func(loader.Tensor) bool) {
		for t := range m.Tensors() {
			if (o.Filter == nil || o.Filter(t.Name())) && !yield(t) {
				return
			}
		}
	}
}

// task is the work on one result: on one tensor, say, or on one pair of them. It consists of phases, and a phase
// of parts. Workers do the parts of a phase in any order, and then begin the next phase.
type task[R any] interface {
	// begin prepares the next phase and returns the number of its parts: 0 after the last.
	begin(ctx context.Context) uint64
	// do does one part of the phase.
	do(w *worker, part uint64) error
	// end is called once, after the last phase, with the error of the first part that failed, or nil. It returns the result. An error
	// of end ends the work on all tasks.
	end(err error) (*R, error)
	// progressBytes returns the number of bytes that the task counts for in Progress.
	progressBytes() uint64
}

// scheduler does tasks in their order: while workers do the last parts of one task, the next task begins. So files
// are read about in order, and all workers share a large tensor. Results go to the caller's function in that order.
type scheduler[R any] struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	progress parallel.Progress // in bytes: see task.progressBytes
	handOut  func(*R) error
	results  sequence[*R]
	workers  chan *worker // idle ones
}

// run does all tasks, which read models, and calls handOut with their results in the order of tasks. If opts.Workers is 0, all cores work.
// It ranges over tasks twice: the first time to sum up the bytes for Progress. It fails if ctx ends, or if handOut or a task's end fails.
// It also fails if a model is closed or one of its files has changed, before or meanwhile.
func run[R any](ctx context.Context, opts *Options, handOut func(*R) error, tasks iter.Seq[task[R]], models ...*loader.Model) error {
	if err := checkModels(models...); err != nil {
		return err
	}
	workers := opts.Workers
	if workers <= 0 {
		workers = parallel.Cores()
	}
	s := &scheduler[R]{progress: parallel.Progress{Report: opts.Progress}, handOut: handOut, workers: make(chan *worker, workers)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	for range workers {
		s.workers <- &worker{ctx: s.ctx}
	}
	for t := range tasks {
		s.progress.Total += t.progressBytes()
	}
	// doAll needs a goroutine of its own: the caller may be locked to its thread, and iter.Pull then serves no other goroutine.
	var all parallel.Group
	all.Go(func() error { s.doAll(workers, tasks); return nil }) // errors cancel s.ctx
	all.Wait()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return checkModels(models...)
}

// doAll does all tasks in this number of goroutines, until none is left or s.ctx ends. It returns when the goroutines have ended. A
// goroutine that wants a task waits until workers have taken all parts of a phase of the previous task. So a large task gets all workers.
// Nobody waits for a task of at most partElements bytes, which has few parts.
func (s *scheduler[R]) doAll(workers int, tasks iter.Seq[task[R]]) {
	following, stop := iter.Pull(tasks)
	defer stop()
	number := uint64(0)
	waitForPrevious := func() {}                            // waits until all parts of the previous task's phase are handed out
	parallel.Each(workers, func() (r running[R], ok bool) { // takes a task, in one goroutine at a time
		waitForPrevious()
		waitForPrevious, r.handedOut = func() {}, func() {}
		r.task, ok = following()
		r.number, number = number, number+1
		if ok && r.task.progressBytes() > partElements {
			allHandedOut := make(chan struct{})
			waitForPrevious = func() { <-allHandedOut }
			r.handedOut = sync.OnceFunc(func() { close(allHandedOut) })
		}
		return r, ok && s.ctx.Err() == nil
	}, func(tasks iter.Seq[running[R]]) error {
		for r := range tasks {
			s.doTask(r)
		}
		return nil
	})
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

// running is a task that a goroutine has taken.
type running[R any] struct {
	task      task[R]
	number    uint64 // of the result
	handedOut func() // lets the next task begin: all parts of a phase are handed out. Further calls do nothing
}

// doTask does a task, and adds its result to s.results, which hands it out when its turn has come. If the task's end fails, doTask cancels
// all work. If s.ctx has ended, it drops the result. In Progress the task counts for its progressBytes, whatever its parts have read.
func (s *scheduler[R]) doTask(r running[R]) {
	defer r.handedOut() // doPhases has not called it if the task has no parts, or if one has failed
	var mu sync.Mutex
	uncounted := r.task.progressBytes()
	count := func(n uint64) {
		mu.Lock()
		n = min(n, uncounted)
		uncounted -= n
		mu.Unlock()
		if n > 0 {
			s.progress.Add(n)
		}
	}
	result, err := s.doPhases(r, count)
	switch {
	case s.ctx.Err() != nil: // the task may have stopped halfway: it has no result
		return
	case err != nil:
		s.cancel(err)
		return
	}
	s.results.add(r.number, result, s.deliver)
	count(r.task.progressBytes()) // what its parts have not counted
}

// doPhases does the phases of a task one after the other. It stops when begin returns 0 parts, when a part fails, or when s.ctx ends. Then
// it calls the task's end with that error, or nil, and returns what end returns. Workers call count with the number of bytes that a part
// has read.
func (s *scheduler[R]) doPhases(r running[R], count func(n uint64)) (result *R, err error) {
	defer func() { result, err = r.task.end(err) }() // also if a part panics: end releases the lease
	for s.ctx.Err() == nil {
		parts := r.task.begin(s.ctx)
		if parts == 0 {
			return nil, nil // replaced by what end returns
		}
		numbers := parallel.Range(parts)
		next := func() (part uint64, ok bool) {
			if part, ok = numbers(); part+1 >= parts { // the last one
				r.handedOut()
			}
			return part, ok
		}
		err := parallel.Each(int(min(parts, uint64(cap(s.workers)))), next, func(parts iter.Seq[uint64]) error {
			for part := range parts {
				if err := s.doPart(r.task, part, count); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(s.ctx)
}

// doPart waits for an idle worker, and does one part of t with its buffers. It fails if the part does.
func (s *scheduler[R]) doPart(t task[R], part uint64, count func(n uint64)) error {
	w := <-s.workers
	defer func() { s.workers <- w }()
	w.addProgress = count
	return t.do(w, part)
}

// deliver calls s.handOut with a result, unless the work has been canceled. An error of s.handOut cancels the work.
func (s *scheduler[R]) deliver(result *R) {
	if s.ctx.Err() != nil {
		return
	}
	if err := s.handOut(result); err != nil {
		s.cancel(err)
	}
}

// worker is the buffers with which one goroutine at a time does a part.
type worker struct {
	ctx              context.Context
	addProgress      func(n uint64) // adds to the task's progress, in bytes
	readerA, readerB reader         // two, for the two tensors of a pair
	codes            *counter       // made when it is first used
}

// counter returns the worker's counter. It is empty, since each part that counts moves its counts to the tensor's.
func (w *worker) counter() *counter {
	if w.codes == nil {
		w.codes = new(counter)
	}
	return w.codes
}

// progress adds n bytes to the task's progress. It returns the cause of w.ctx if that has ended.
func (w *worker) progress(n uint64) error {
	w.addProgress(n)
	return context.Cause(w.ctx)
}

// sequence passes results on in the order of their numbers, in whatever order they arrive. Work begins in that
// order, so few results have to wait.
type sequence[T any] struct {
	mu    sync.Mutex
	next  uint64       // the number of the result to pass on next
	early map[uint64]T // results that arrived before their turn
}

// add calls fold with the result if fold has had all results of smaller numbers, then with the results that waited for this one.
// Otherwise it stores the result for later. fold runs in one goroutine at a time, and does not call add.
func (s *sequence[T]) add(number uint64, result T, fold func(T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number != s.next {
		if s.early == nil {
			s.early = make(map[uint64]T)
		}
		s.early[number] = result
		return
	}
	for ok := true; ok; result, ok = s.early[s.next] {
		delete(s.early, s.next)
		s.next++
		fold(result)
	}
}
