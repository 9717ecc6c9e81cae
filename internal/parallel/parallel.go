// Package parallel runs the workers of one task. However one of them ends, by an
// error or a panic, the caller who waits hears of it. A worker's panic does not end the
// process unless the caller lets it.
package parallel

import (
	"cmp"
	"context"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
)

// Cores returns how many workers can compute at once: GOMAXPROCS.
func Cores() int { return runtime.GOMAXPROCS(0) }

// Workers returns how many workers compute n items: as many as there are cores, and no more than items.
func Workers(n uint64) int { return int(min(uint64(Cores()), n)) }

// Group runs workers, each in a goroutine of its own. The zero value is ready for use, and good for one Wait.
type Group struct {
	// Stop, if set, is called once, when the first worker fails: with an error, by a panic or
	// by runtime.Goexit. It lets the others find no more work, and runs in the goroutine of the
	// worker that failed.
	Stop func()

	workers sync.WaitGroup

	mu sync.Mutex
	failure
}

// failure is what workers have failed with: the first of each kind.
type failure struct {
	err       error
	panicked  *panicked
	hasExited bool
}

// panicked is a recovered panic.
type panicked struct {
	value any
	stack []byte
}

// Go runs work in a new goroutine, which inherits the caller's debug.SetPanicOnFault: a caller
// that survives faults of a mapping still does.
func (g *Group) Go(work func() error) {
	faults := panicsOnFault()
	g.workers.Go(func() {
		debug.SetPanicOnFault(faults)
		g.run(work)
	})
}

// Here runs work in the caller's goroutine, and returns when the workers of Go have ended too. It hides how work ends, also a panic:
// call Wait for that.
func (g *Group) Here(work func() error) {
	defer g.workers.Wait() // also if work ends this goroutine
	g.run(work)
}

// Wait waits for all workers. If one has panicked, Wait panics with the same value; a crash
// prints the worker's stack as well. If one has called runtime.Goexit, as FailNow of a test
// does, so does Wait. Otherwise it returns the error that came first.
func (g *Group) Wait() error {
	g.workers.Wait()
	switch {
	case g.panicked != nil:
		g.panicked.repanic()
	case g.hasExited:
		runtime.Goexit()
	}
	return g.err
}

// run calls work and records how it ends: by an error, a panic or runtime.Goexit. It calls Stop if that is the first failure.
func (g *Group) run(work func() error) {
	f := failure{hasExited: true} // unless work returns or panics
	defer func() {
		if v := recover(); v != nil {
			f = failure{panicked: &panicked{v, debug.Stack()}}
		}
		if f == (failure{}) {
			return
		}
		g.mu.Lock()
		isFirst := g.failure == failure{}
		g.failure = failure{cmp.Or(g.err, f.err), cmp.Or(g.panicked, f.panicked), g.hasExited || f.hasExited}
		g.mu.Unlock()
		if isFirst && g.Stop != nil {
			g.Stop()
		}
	}()
	f = failure{err: work()}
}

// repanic panics with the worker's value. It panics twice, the second time in a deferred call: recover returns the second panic, and a
// crash prints both, with the worker's stack.
func (p *panicked) repanic() {
	defer panic(p.value)
	panic("a worker panicked:\n" + string(p.stack))
}

// panicsOnFault returns the calling goroutine's setting of debug.SetPanicOnFault. To read it, it has to be set for a moment.
func panicsOnFault() bool {
	on := debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(on)
	return on
}

// A Team does the same work again and again, with as many workers as each run asks for. After
// the first run it allocates nothing. Between runs it has no goroutines.
type Team struct {
	group  Group
	faults bool
	work   func() error
	member func() // the function of a goroutine: one closure, so that Run allocates none
}

// NewTeam returns a team. work finds out by itself what there is to do; it may be called by several
// goroutines at once. stop, if set, is called when a worker fails, as [Group.Stop] says.
func NewTeam(work func() error, stop func()) *Team {
	t := &Team{group: Group{Stop: stop}, work: work}
	t.member = func() {
		defer t.group.workers.Done()
		debug.SetPanicOnFault(t.faults)
		t.group.run(work)
	}
	return t
}

// Run runs the given number of workers, the caller among them, and returns when all have ended: the error
// that came first. Panics reach the caller as [Group.Wait] says. One goroutine at a time may call it.
func (t *Team) Run(workers int) error {
	t.group.failure = failure{}
	t.faults = panicsOnFault()
	t.group.workers.Add(max(1, workers) - 1)
	for range workers - 1 {
		go t.member()
	}
	t.group.Here(t.work)
	return t.group.Wait()
}

// Mutex is a mutual exclusion lock whose Lock can be canceled.
type Mutex struct {
	locked chan struct{} // has an element while the mutex is locked
}

// NewMutex returns an unlocked Mutex.
func NewMutex() Mutex { return Mutex{make(chan struct{}, 1)} }

// Lock locks m, or returns the cause of ctx if that ends first.
func (m Mutex) Lock(ctx context.Context) error {
	select {
	case m.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks m.
func (m Mutex) Unlock() { <-m.locked }

// Progress counts what workers have done.
type Progress struct {
	// Report, if set, is called with how much is done: by one goroutine at a time, with done never falling.
	Report func(done, total uint64)
	// Total is how much there is to do.
	Total uint64

	mu   sync.Mutex // locked during calls of Report
	done uint64
}

// Add reports that n more is done.
func (p *Progress) Add(n uint64) {
	if p.Report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	p.Report(p.done, p.Total)
}

// Writer writes to W in ranges of at most 8 MiB. Before each it fails with the cause of Ctx if that has ended.
type Writer struct {
	Ctx context.Context
	W   io.Writer
	// Wrote, if set, is called with the number of bytes of each range that was written.
	Wrote func(n int)
}

const writerBytes = 8 << 20

// Write writes b to W, range by range. After an error written counts the bytes that W has taken.
func (w *Writer) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		if err := context.Cause(w.Ctx); err != nil {
			return written, err
		}
		n, err := w.W.Write(b[:min(len(b), writerBytes)])
		written += n
		if w.Wrote != nil {
			w.Wrote(n)
		}
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}
