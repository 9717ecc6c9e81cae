package parallel

import "runtime/debug"

// A Team does the same work again and again, with as many workers as each run asks for. After
// the first run it allocates nothing. Between runs it has no goroutines.
type Team struct {
	group  Group
	faults bool
	member func()
}

// NewTeam returns a team. work finds out by itself what there is to do; it may be called by several
// goroutines at once. stop, if set, is called when a worker fails, as [Group.Stop] says.
func NewTeam(work func() error, stop func()) *Team {
	t := &Team{group: Group{Stop: stop}}
	t.member = func() {
		defer t.group.workers.Done()
		debug.SetPanicOnFault(t.faults)
		t.group.run(work)
	}
	return t
}

// Run runs so many workers, the caller among them, and returns when all have ended: the error
// that came first. Panics reach the caller as [Group.Wait] says. One goroutine at a time may call it.
func (t *Team) Run(workers int) error {
	t.group.failure = failure{}
	t.faults = panicsOnFault()
	t.group.workers.Add(max(1, workers))
	for range workers - 1 {
		go t.member()
	}
	func() {
		defer t.group.workers.Wait() // also if the work ends this goroutine
		t.member()
	}()
	return t.group.Wait()
}
