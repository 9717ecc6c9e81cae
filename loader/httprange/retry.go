package httprange

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
)

// minProgress is how many bytes count as progress. A server that sends fewer, in an answer
// that drips or in many that are tiny, is as good as silent.
const minProgress = 4 << 10

// fetch fills v from off on, by as many requests as it takes.
func (r *Reader) fetch(ctx context.Context, v *vector, off int64) error {
	end := off + v.n
	wrap := func(err error) error { return r.wrap(end-v.n, err) }
	return r.retry(ctx, wrap, func(ctx context.Context, p *progress) error { return r.complete(ctx, p, v, end) })
}

// retry calls try, when it is its turn, until it succeeds, fails for good, or progress ends.
// wrap adds to the error what has failed.
func (r *Reader) retry(ctx context.Context, wrap func(error) error, try func(context.Context, *progress) error) error {
	since, err := r.queue.enter(ctx, r.opts.Timeout)
	if err != nil {
		return err
	}
	defer r.queue.leave()
	p := &progress{reader: r, since: since}
	if r.opts.Silent != nil {
		var end func()
		ctx, end = p.listen(ctx)
		defer end()
	}
	for {
		err := try(ctx, p)
		if err == nil {
			r.queue.progress()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := r.pause(p.requests, err)
		if !passing(err) || p.requests >= r.opts.Attempts || pause >= p.left() {
			return wrap(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// progress bounds how long one read bears a server without progress. Progress renews it.
type progress struct {
	reader   *Reader
	since    time.Time // of the last progress
	requests int       // begun since then
	bytes    int       // received since then
	reached  int64     // the end of what has come, of all requests

	silence *time.Timer // until Options.Silent is called, nil if nobody listens
}

// listen calls Options.Silent from another goroutine, whenever there was no progress for long. A panic of it ends the
// context, and reaches who calls end.
func (p *progress) listen(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.silence = time.NewTimer(p.reader.silence())
	calls := parallel.Group{Stop: cancel}
	calls.Go(func() error {
		for {
			select {
			case <-p.silence.C:
				p.reader.opts.Silent(p.reader.url.Host)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return ctx, func() {
		cancel()
		calls.Wait()
	}
}

// silence returns how long a read may go without progress before somebody hears of it.
func (r *Reader) silence() time.Duration { return min(3*time.Second, r.opts.Timeout/2) }

// left returns how long the read may yet go without progress.
func (p *progress) left() time.Duration {
	return time.Until(p.since.Add(p.reader.opts.Timeout))
}

// limit returns how long the request under way may go without progress.
func (p *progress) limit() time.Duration { return min(p.reader.opts.Stall, p.left()) }

// received reports whether n bytes more, which end at an offset, are progress. Those that have come before are none: an
// answer that begins anew repeats them.
func (p *progress) received(end int64, n int) bool {
	fresh := min(int64(n), max(end-p.reached, 0))
	p.reached = max(p.reached, end)
	if p.bytes += int(fresh); p.bytes < minProgress {
		return false
	}
	p.since, p.requests, p.bytes = time.Now(), 0, 0
	if p.silence != nil {
		p.silence.Reset(p.reader.silence())
	}
	p.reader.queue.progress()
	return true
}

// pause returns how long to wait after so many requests without progress. err is the last one's
// error.
func (r *Reader) pause(requests int, err error) time.Duration {
	pause := r.opts.Pause << min(max(requests-1, 0), 6)
	pause = pause/2 + rand.N(pause/2+1) // so that many readers do not come back together
	if status := new(StatusError); errors.As(err, &status) {
		pause = max(pause, status.after)
	}
	return pause
}

// queue lets so many requests run at once, of a reader and its siblings.
type queue struct {
	turns chan struct{}
	born  time.Time
	last  atomic.Int64 // progress of anybody, as nanoseconds after born
}

func (q *queue) progress() { q.last.Store(int64(time.Since(q.born))) }

// enter waits for a place, for as long as those who have one make progress. since is the last
// progress, or the time of the call.
func (q *queue) enter(ctx context.Context, timeout time.Duration) (since time.Time, err error) {
	since = time.Now()
	for {
		select {
		case q.turns <- struct{}{}:
			return q.later(since), nil
		case <-ctx.Done():
			return since, context.Cause(ctx)
		case <-time.After(time.Until(since.Add(timeout))):
		}
		last := q.later(since)
		if last.Equal(since) {
			return since, fmt.Errorf("%w for %v", ErrStalled, timeout)
		}
		since = last
	}
}

// later returns the time of the last progress if that is after since, else since.
func (q *queue) later(since time.Time) time.Time {
	if last := q.born.Add(time.Duration(q.last.Load())); last.After(since) {
		return last
	}
	return since
}

func (q *queue) leave() { <-q.turns }
