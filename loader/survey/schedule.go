package survey

import (
	"context"
	"iter"
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
	// Progress, if set, hears how many bytes of elements have been read, and how many there
	// are. A second pass counts again. One goroutine at a time calls it; done never falls.
	Progress func(done, total uint64)
}

// tensors yields the tensors of m that Filter selects, in the order of the file.
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
	// end is called once, with the error of the first part that failed. It returns the result. An error of end ends
	// all work.
	end(err error) (*R, error)
	// weight returns the bytes that the task counts for in Progress.
	weight() uint64
}

// scheduler hands out parts: of the oldest running task that has some, else of a new task.
// So files are read about in order, and all workers share a large tensor. Results go to the caller's function in
// their order.
type scheduler[R any] struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	progress parallel.Progress // in bytes of the tasks' weights
	each     func(*R) error
	results  sequence[*R]

	mu      sync.Mutex
	changed sync.Cond        // of running
	waiting chan *running[R] // to begin; never waited for long
	running []*running[R]

	watched sync.Mutex // held while seen of a running task changes
}

// running is a task that has begun, or is to begin.
type running[R any] struct {
	task   task[R]
	number uint64 // of the result
	parts  uint64 // of the phase
	next   uint64 // part to hand out
	busy   int    // parts that workers do now
	failed uint64 // the first part that failed
	err    error  // its error
	seen   uint64 // of the task's weight; guarded by watched
}

// run does all tasks, each with the number of its result, which read models. It hands the results to each. The sequence
// is gone through twice: the first time for the weights alone. The error is that of the context or of each. A file
// that has changed, or a model that was closed, before or meanwhile, is an error too.
func run[R any](ctx context.Context, opts *Options, each func(*R) error, tasks iter.Seq2[uint64, task[R]], models ...*loader.Model) error {
	s := &scheduler[R]{progress: parallel.Progress{Report: opts.Progress}, each: each, waiting: make(chan *running[R], 64)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.changed.L = &s.mu
	defer s.cancel(nil)
	if err := unchanged(models...); err != nil {
		return err
	}
	for _, t := range tasks {
		s.progress.Total += t.weight()
	}
	defer func() {
		s.cancel(context.Canceled) // results of tasks that did not end are nobody's
		for _, r := range s.running {
			r.task.end(s.ctx.Err())
		}
	}()
	g := parallel.Group{Stop: func() {
		s.cancel(context.Canceled)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	}}
	workers := opts.Workers
	if workers <= 0 {
		workers = parallel.Cores()
	}
	for range workers {
		g.Go(s.work)
	}
	g.Here(func() error {
		defer close(s.waiting)
		for number, t := range tasks {
			select {
			case s.waiting <- &running[R]{task: t, number: number}:
			case <-s.ctx.Done():
				return nil
			}
		}
		return nil
	})
	g.Wait()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return unchanged(models...)
}

// unchanged returns an error if a model is closed, or if one of its files has changed.
func unchanged(models ...*loader.Model) error {
	for _, m := range models {
		if err := m.Changed(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scheduler[R]) work() error {
	w := &worker{ctx: s.ctx}
	for {
		r, part := s.take()
		if r == nil {
			return nil
		}
		w.add = func(n uint64) { s.addProgress(r, n) }
		s.finish(r, part, r.task.do(w, part))
	}
}

// take returns a part to do, or nil when nothing will be left to do.
func (s *scheduler[R]) take() (r *running[R], part uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ctx.Err() == nil {
		for _, r := range s.running {
			if r.next < r.parts {
				part = r.next
				r.next++
				r.busy++
				return r, part
			}
		}
		switch {
		case s.begin():
		case len(s.running) == 0:
			return nil, 0
		default:
			s.changed.Wait()
		}
	}
	return nil, 0
}

// begin begins the next task, and reports whether there is one.
func (s *scheduler[R]) begin() bool {
	r, ok := <-s.waiting
	if !ok {
		return false
	}
	s.running = append(s.running, r)
	s.advance(r)
	return true
}

func (s *scheduler[R]) finish(r *running[R], part uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.busy--
	if err != nil && (r.err == nil || part < r.failed) {
		r.err, r.failed = err, part
		r.next = r.parts
	}
	if r.next == r.parts && r.busy == 0 {
		if s.ctx.Err() == nil {
			s.advance(r)
		}
		s.changed.Broadcast()
	}
}

// advance begins r's next phase, or ends it.
func (s *scheduler[R]) advance(r *running[R]) {
	if r.err == nil {
		if r.parts, r.next = r.task.begin(s.ctx), 0; r.parts > 0 {
			return
		}
	}
	s.running = slices.DeleteFunc(s.running, func(other *running[R]) bool { return other == r })
	if result, err := r.task.end(r.err); err != nil {
		s.cancel(err)
	} else {
		s.results.add(r.number, result, s.deliver)
	}
	s.addProgress(r, r.task.weight())
}

// deliver hands a result to the caller's function, whose error ends the work.
func (s *scheduler[R]) deliver(result *R) {
	if s.ctx.Err() != nil {
		return
	}
	if err := s.each(result); err != nil {
		s.cancel(err)
	}
}

// addProgress reports n more bytes of r's weight, up to the whole weight.
func (s *scheduler[R]) addProgress(r *running[R], n uint64) {
	s.watched.Lock()
	n = min(n, r.task.weight()-r.seen)
	r.seen += n
	s.watched.Unlock()
	if n > 0 {
		s.progress.Add(n)
	}
}

// worker is a goroutine and its memory.
type worker struct {
	ctx    context.Context
	add    func(n uint64) // counts bytes of the task that is worked on
	a, b   reader
	counts [2]counters
}

// progress reports that n bytes have been read. The error is the cause of the ended context.
func (w *worker) progress(n uint64) error {
	w.add(n)
	return context.Cause(w.ctx)
}

// sequence folds results in their order, in whatever order they arrive. Work begins in that
// order, so few results have to wait.
type sequence[T any] struct {
	mu    sync.Mutex
	next  uint64
	early map[uint64]T
}

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
