package survey

import (
	"context"
	"errors"
	"runtime"
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
	// Progress, if set, hears how many of how many bytes of elements have been gone through,
	// each counted as often as it may have to be: from one goroutine at a time, with done
	// never falling.
	Progress func(done, total uint64)
}

func (o *Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (o *Options) selects(name string) bool { return o.Filter == nil || o.Filter(name) }

// most returns how many tensors of m are worth room before Filter has seen them.
func (o *Options) most(m *loader.Model) int {
	if o.Filter != nil {
		return 0
	}
	return m.Len()
}

// task is the work on one tensor, or one pair of them: phases, each of parts that workers do
// in any order, and the next only when all are done.
type task interface {
	// begin prepares the next phase and returns how many parts it has: none where all is done.
	begin() uint64
	// do does one part of the phase.
	do(w *worker, part uint64) error
	// end hears, once, that all is done, or of the error of the first part that failed.
	end(err error)
	// weight is what the task is worth to those who watch, in bytes.
	weight() uint64
}

// work is what has to be done: tasks that next makes when their turn comes, so that few are in
// memory at a time. next returns nil after the last.
type work struct {
	total uint64 // the weight of all tasks
	next  func() task
}

// each returns the work on n things.
func each(n int, weight func(i int) uint64, make func(i int) task) work {
	w := work{}
	for i := range n {
		w.total += weight(i)
	}
	i := 0
	w.next = func() task {
		if i == n {
			return nil
		}
		i++
		return make(i - 1)
	}
	return w
}

// run does all tasks, which are about models. The error is that of ctx, or that a file of a
// model has changed meanwhile.
func run(ctx context.Context, opts *Options, todo work, models ...*loader.Model) error {
	c := &crew{ctx: ctx, next: todo.next, total: todo.total, progress: opts.Progress}
	c.changed.L = &c.mu
	defer func() {
		for _, r := range c.running { // some are left if ctx has ended or a worker panicked
			r.task.end(ctx.Err())
		}
	}()
	g := parallel.Group{Stop: c.stop}
	for range opts.workers() {
		g.Go(c.work)
	}
	g.Wait()
	if len(c.running) > 0 || c.next != nil {
		return ctx.Err()
	}
	for _, m := range models {
		if err := m.Changed(); err != nil && !errors.Is(err, loader.ErrClosed) { // which tensors say
			return err
		}
	}
	return nil
}

// crew hands out parts: of the oldest running task that has some, else of the next one
// waiting. So the file is read about in order, and a large tensor has all workers.
type crew struct {
	ctx context.Context

	mu      sync.Mutex
	changed sync.Cond   // of running
	next    func() task // nil once all have begun
	running []*running
	stopped bool // a worker has panicked

	watched     sync.Mutex
	progress    func(done, total uint64)
	done, total uint64
}

// running is a task that has begun.
type running struct {
	task   task
	parts  uint64 // of the phase
	next   uint64 // part to hand out
	busy   int    // parts being done
	failed uint64 // the first part that failed
	err    error  // its error
	seen   uint64 // of the task's weight; guarded by watched
}

func (c *crew) work() error {
	w := &worker{crew: c}
	for {
		r, part := c.take()
		if r == nil {
			return nil
		}
		w.running = r
		c.finish(r, part, r.task.do(w, part))
	}
}

// stop leaves nothing to take.
func (c *crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.changed.Broadcast()
}

// take returns nil when nothing will be left to do.
func (c *crew) take() (r *running, part uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ctx.Err() == nil && !c.stopped {
		for _, r := range c.running {
			if r.next < r.parts {
				part = r.next
				r.next++
				r.busy++
				return r, part
			}
		}
		switch {
		case c.begin():
		case len(c.running) == 0:
			return nil, 0
		default:
			c.changed.Wait()
		}
	}
	return nil, 0
}

// begin begins the next task, if there is one.
func (c *crew) begin() bool {
	if c.next == nil {
		return false
	}
	t := c.next()
	if t == nil {
		c.next = nil
		return false
	}
	r := &running{task: t}
	c.running = append(c.running, r)
	c.advance(r)
	return true
}

func (c *crew) finish(r *running, part uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.busy--
	if err != nil && (r.err == nil || part < r.failed) {
		r.err, r.failed = err, part
		r.next = r.parts
	}
	if r.next == r.parts && r.busy == 0 {
		if c.ctx.Err() == nil {
			c.advance(r)
		}
		c.changed.Broadcast()
	}
}

// advance begins r's next phase, or ends it.
func (c *crew) advance(r *running) {
	if r.err == nil {
		if r.parts, r.next = r.task.begin(), 0; r.parts > 0 {
			return
		}
	}
	c.running = slices.DeleteFunc(c.running, func(other *running) bool { return other == r })
	r.task.end(r.err)
	c.saw(r, r.task.weight())
}

// saw reports n more bytes of r's weight, as far as there are so many.
func (c *crew) saw(r *running, n uint64) {
	c.watched.Lock()
	defer c.watched.Unlock()
	n = min(n, r.task.weight()-r.seen)
	r.seen += n
	c.done += n
	if c.progress != nil && n > 0 {
		c.progress(c.done, c.total)
	}
}

// worker is a goroutine and its memory.
type worker struct {
	crew    *crew
	running *running
	a, b    reader
	counts  [2]counters
}

// saw says that n bytes have been gone through. The error is that of the context.
func (w *worker) saw(n uint64) error {
	w.crew.saw(w.running, n)
	return w.crew.ctx.Err()
}

// sequence folds the results of parts in their order, in whatever order they are done. Parts
// are begun in order, so that few have to wait.
type sequence[T any] struct {
	mu    sync.Mutex
	next  uint64
	early map[uint64]T
}

func (s *sequence[T]) add(part uint64, result T, fold func(T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if part != s.next {
		if s.early == nil {
			s.early = make(map[uint64]T)
		}
		s.early[part] = result
		return
	}
	for ok := true; ok; result, ok = s.early[s.next] {
		delete(s.early, s.next)
		s.next++
		fold(result)
	}
}
