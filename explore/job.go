package explore

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// job is work whose results several pages listen to. It runs while one does. Listeners that come later get all results too.
type job[R any] struct {
	mu        sync.Mutex
	changed   chan struct{} // closed at the next change
	results   []R
	line      answer.Line // the latest of all that is no result
	ended     bool
	stopped   bool // before it ended: nobody joins it any more
	listeners int
	stop      context.CancelCauseFunc

	// The following are the work's own.
	progress answer.Progress
	begun    time.Time // when begin was called
	next     time.Time // when it is worth while to look for findings
}

// Jobs that read all values of a model, and jobs that compare two.
type (
	statsJob   = job[answer.TensorStat]
	compareJob = job[answer.Pair]
)

// joinJob returns the job that jobs has by a key. It begins one with work if none runs or has ended well. The caller holds h.mu, and
// leaves the job. joinJob fails if the job is of a model that is not served any more.
func joinJob[K comparable, R any](h *handler, jobs map[K]*job[R], key K, work func(context.Context, *job[R]) error,
	of ...*shown) (*job[R], error) {
	if j := jobs[key]; j != nil && j.join() {
		return j, nil
	}
	if slices.ContainsFunc(of, func(s *shown) bool { return !h.serves(s) }) {
		return nil, errSwapped
	}
	j := startJob(work, h.watch, func(j *job[R]) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if jobs[key] == j {
			delete(jobs, key)
		}
	})
	jobs[key] = j
	j.join()
	return j, nil
}

// startJob begins work in a goroutine, which calls publish, and ends early once the context is done. If work fails, or what goes on
// meanwhile until it ends, listeners are told why, and then fail is called.
func startJob[R any](work func(context.Context, *job[R]) error, meanwhile func(context.Context) error, fail func(*job[R])) *job[R] {
	ctx, stop := context.WithCancelCause(context.Background())
	j := &job[R]{changed: make(chan struct{}), stop: stop}
	go func() {
		if err := guarded(func() error { return meanwhile(ctx) }); err != nil {
			stop(err)
		}
	}()
	go func() {
		defer stop(nil)
		if err := guarded(func() error { return work(ctx, j) }); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			p, _ := problemOf(err)
			j.publish(func(line *answer.Line) { line.Error = &p })
			fail(j)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ended = true
		close(j.changed)
	}()
	return j
}

// begin sets how far the work is before it reads values. From then on each line says how far it is.
func (j *job[R]) begin(p answer.Progress) {
	j.progress, j.begun = p, time.Now()
	j.next = j.begun.Add(betweenLines)
	j.publish(nil)
}

// sometimes calls look, which looks for findings, unless it did lately: looking takes a tenth of the time at most.
func (j *job[R]) sometimes(look func()) {
	if begun := time.Now(); begun.After(j.next) {
		look()
		j.next = time.Now().Add(betweenLines + 10*time.Since(begun))
	}
}

// guarded calls work, and returns its panic as an error, which it logs as net/http does for requests: nobody else would recover
// in a job's goroutine, and the server that shows its model would end.
func guarded(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Printf("explore: panic: %v\n%s", p, debug.Stack())
			err = &problem{Problem{Text: "This failed by a mistake of the program.", Line: fmt.Sprintf("tensormap: %v", p)}, http.StatusInternalServerError}
		}
	}()
	return work()
}

// publish adds results and how far the work is, and lets update, unless it is nil, change the line next to them.
func (j *job[R]) publish(update func(*answer.Line), results ...R) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.begun.IsZero() {
		p := j.progress
		p.Seconds = time.Since(j.begun).Seconds()
		j.line.Progress = &p
	}
	if update != nil {
		update(&j.line)
	}
	j.results = append(j.results, results...)
	close(j.changed)
	j.changed = make(chan struct{})
}

// published returns the line and all results by now, and whether the work is done.
func (j *job[R]) published() (line answer.Line, results []R, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.line, j.results, j.ended
}

// join counts a listener. It returns false if the job was stopped.
func (j *job[R]) join() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped && !j.ended {
		return false
	}
	j.listeners++
	return true
}

// leave ends join. The last listener stops the job, unless it has ended.
func (j *job[R]) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.listeners--; j.listeners == 0 {
		j.stopLocked(context.Canceled)
	}
}

// end stops a job, whose listeners hear why, unless it has ended.
func (j *job[R]) end(why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(why)
}

// stopLocked stops the job unless it has ended. Its caller holds j.mu.
func (j *job[R]) stopLocked(why error) {
	if !j.ended && !j.stopped {
		j.stopped = true
		j.stop(why)
	}
}

// betweenLines is the least time between two lines of a stream.
const betweenLines = 100 * time.Millisecond

// maxResults bounds the results of one line: late listeners of a large model would each hold all of them as text.
const maxResults = 1000

// listen hands all results, and what is new of them later, to write until the job ends: too many at once with lines that have
// nothing else. Its caller has joined. It fails if write does, or ctx is done.
func (j *job[R]) listen(ctx context.Context, write func(line answer.Line, results []R) error) error {
	for seen := 0; ; {
		j.mu.Lock()
		line, results, ended, changed := j.line, j.results[seen:], j.ended, j.changed
		j.mu.Unlock()
		for len(results) > maxResults {
			if err := write(answer.Line{}, results[:maxResults]); err != nil {
				return err
			}
			results, seen = results[maxResults:], seen+maxResults
		}
		seen += len(results)
		if err := write(line, results); err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(betweenLines):
		}
	}
}
