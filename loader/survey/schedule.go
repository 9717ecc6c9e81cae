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

// task is the work on one tensor, or on one pair of them. It consists of phases, and a phase
// of parts. Workers do the parts of a phase in any order, and then begin the next phase.
type task interface {
	// begin prepares the next phase and returns the number of its parts: 0 after the last.
	begin(ctx context.Context) uint64
	// do does one part of the phase.
	do(w *worker, part uint64) error
	// end is called once, with the error of the first part that failed. It hands over the result.
	end(err error)
	// weight returns the bytes that the task counts for in Progress.
	weight() uint64
}

// scheduler hands out parts: of the oldest running task that has some, else of a new task.
// So files are read about in order, and all workers share a large tensor.
type scheduler struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	workers  int
	progress parallel.Progress // in bytes of the tasks' weights

	mu      sync.Mutex
	changed sync.Cond // of running
	waiting chan task // to begin; never waited for long
	running []*running

	watched sync.Mutex // held while seen of a running task changes
}

// running is a task that has begun.
type running struct {
	task   task
	parts  uint64 // of the phase
	next   uint64 // part to hand out
	busy   int    // parts that workers do now
	failed uint64 // the first part that failed
	err    error  // its error
	seen   uint64 // of the task's weight; guarded by watched
}

func newScheduler(ctx context.Context, opts *Options) *scheduler {
	s := &scheduler{workers: opts.Workers, progress: parallel.Progress{Report: opts.Progress}, waiting: make(chan task, 64)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.changed.L = &s.mu
	if s.workers <= 0 {
		s.workers = parallel.Cores()
	}
	return s
}

// run does all tasks, which read models. The sequence is gone through twice: the first time
// for the weights alone. The error is that of the context or of whoever takes results. A file
// that has changed, or a model that was closed, before or meanwhile, is an error too.
func (s *scheduler) run(tasks iter.Seq[task], models ...*loader.Model) error {
	defer s.cancel(nil)
	if err := unchanged(models...); err != nil {
		return err
	}
	for t := range tasks {
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
	for range s.workers {
		g.Go(s.work)
	}
	g.Here(func() error {
		defer close(s.waiting)
		for t := range tasks {
			select {
			case s.waiting <- t:
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

func (s *scheduler) work() error {
	w := &worker{scheduler: s}
	for {
		r, part := s.take()
		if r == nil {
			return nil
		}
		w.running = r
		s.finish(r, part, r.task.do(w, part))
	}
}

// take returns a part to do, or nil when nothing will be left to do.
func (s *scheduler) take() (r *running, part uint64) {
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
func (s *scheduler) begin() bool {
	t, ok := <-s.waiting
	if !ok {
		return false
	}
	r := &running{task: t}
	s.running = append(s.running, r)
	s.advance(r)
	return true
}

func (s *scheduler) finish(r *running, part uint64, err error) {
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
func (s *scheduler) advance(r *running) {
	if r.err == nil {
		if r.parts, r.next = r.task.begin(s.ctx), 0; r.parts > 0 {
			return
		}
	}
	s.running = slices.DeleteFunc(s.running, func(other *running) bool { return other == r })
	r.task.end(r.err)
	s.addProgress(r, r.task.weight())
}

// addProgress reports n more bytes of r's weight, up to the whole weight.
func (s *scheduler) addProgress(r *running, n uint64) {
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
	scheduler *scheduler
	running   *running
	a, b      reader
	counts    [2]counters
}

// progress reports that n bytes have been read. The error is the cause of the ended context.
func (w *worker) progress(n uint64) error {
	w.scheduler.addProgress(w.running, n)
	return context.Cause(w.scheduler.ctx)
}

// delivery hands results to the caller's function in their order.
type delivery[R any] struct {
	*scheduler
	results sequence[*R]
	each    func(*R) error
}

func newDelivery[R any](ctx context.Context, opts *Options, each func(*R) error) *delivery[R] {
	return &delivery[R]{scheduler: newScheduler(ctx, opts), each: each}
}

// add hands over r, and all later results that waited for it. An error of the caller's function
// ends the work.
func (d *delivery[R]) add(number uint64, r *R) {
	d.results.add(number, r, func(r *R) {
		if d.ctx.Err() != nil {
			return
		}
		if err := d.each(r); err != nil {
			d.cancel(err)
		}
	})
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
