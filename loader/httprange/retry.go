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

// minProgress is the number of bytes that count as progress. A server that sends fewer within the limits of time and
// attempts counts as silent.
const minProgress = 4 << 10

// fetchRange fills rest with the file's bytes from off on, by as many requests as it takes. It fails once attempts or time are used
// up, with an error that names the offset of the first byte that is missing.
func (r *Reader) fetchRange(ctx context.Context, rest []byte, off int64) error {
	end := off + int64(len(rest)) // stays, while fillByRequests advances rest
	err := r.retry(ctx, func(ctx context.Context, p *progress) error { return r.fillByRequests(ctx, p, &rest, end) })
	if err != nil {
		return r.wrap(end-int64(len(rest)), err)
	}
	return nil
}

// retry waits for a turn in the queue, and calls try until try succeeds, with a pause after each failure. try counts in p what it sends and
// receives. retry returns an error of try that is not temporary. It returns a temporary one after Options.Attempts requests without
// progress, and if the next pause would exceed Options.Timeout. It fails with the cause of ctx when ctx ends, and with ErrStalled if no
// turn comes in time.
func (r *Reader) retry(ctx context.Context, try func(ctx context.Context, p *progress) error) error {
	since, err := r.queue.enter(ctx, r.opts.Timeout)
	if err != nil {
		return err
	}
	defer func() { <-r.queue.turns }()
	p := &progress{reader: r, since: since}
	if r.opts.Silent != nil {
		var end func()
		ctx, end = p.watchSilence(ctx)
		defer end()
	}
	for {
		err := try(ctx, p)
		if err == nil {
			r.queue.noteProgress()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := r.backoff(p.requestsSinceProgress, err)
		if !isTemporary(err) || p.requestsSinceProgress >= r.opts.Attempts || pause >= p.remaining() {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// progress records what one read has received, and when: the read fails after some time without progress.
type progress struct {
	reader                *Reader
	since                 time.Time // of the last progress
	requestsSinceProgress int       // sent since then
	bytes                 int       // received since then
	maxOffset             int64     // the largest offset in the file that was received, of all requests

	silenceTimer *time.Timer // its end makes watchSilence call Options.Silent; nil if that is not set
}

// watchSilence starts a goroutine that calls Options.Silent after silenceLimit without progress. Silent is called once, and again only
// after progress: received then restarts the timer. The returned context ends with ctx, or if Silent panics. The caller must call end,
// which waits for the goroutine. If Silent has panicked, end panics.
func (p *progress) watchSilence(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.silenceTimer = time.NewTimer(p.reader.silenceLimit())
	calls := parallel.Group{Stop: cancel}
	calls.Go(func() error {
		for {
			select {
			case <-p.silenceTimer.C:
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

// silenceLimit returns how long a read may go without progress before Options.Silent is called.
func (r *Reader) silenceLimit() time.Duration { return min(3*time.Second, r.opts.Timeout/2) }

// remaining returns how long the read may still go without progress. The time is negative once Options.Timeout is over.
func (p *progress) remaining() time.Duration {
	return time.Until(p.since.Add(p.reader.opts.Timeout))
}

// requestLimit returns how long the request that runs may go without progress.
func (p *progress) requestLimit() time.Duration { return min(p.reader.opts.Stall, p.remaining()) }

// received counts n bytes of the file that have just arrived. end is the offset behind the last of them. Bytes up to the largest offset
// that came before do not count: a response that begins anew repeats them. If minProgress bytes have come since the last progress, received
// notes progress now, counts requests and bytes from 0 again, and returns true.
func (p *progress) received(end int64, n int) bool {
	added := min(int64(n), max(end-p.maxOffset, 0))
	p.maxOffset = max(p.maxOffset, end)
	if p.bytes += int(added); p.bytes < minProgress {
		return false
	}
	p.since, p.requestsSinceProgress, p.bytes = time.Now(), 0, 0
	if p.silenceTimer != nil {
		p.silenceTimer.Reset(p.reader.silenceLimit())
	}
	p.reader.queue.noteProgress()
	return true
}

// backoff returns how long to wait after a number of requests without progress. The time doubles with each request, up to 64 times
// Options.Pause, less a random part of up to half. If err, the last request's error, has a longer Retry-After, backoff returns that.
func (r *Reader) backoff(requests int, err error) time.Duration {
	pause := r.opts.Pause << min(max(requests-1, 0), 6) // at most 64 times as long
	pause = pause/2 + rand.N(pause/2+1)                 // so that readers do not all try again at once
	if status := new(StatusError); errors.As(err, &status) {
		pause = max(pause, status.retryAfter)
	}
	return pause
}

// queue bounds the requests that a reader and its siblings send at once.
type queue struct {
	turns      chan struct{} // one element for each read that has a turn
	born       time.Time
	progressAt atomic.Int64 // the last progress of any read, in nanoseconds after born
}

// noteProgress records that a read has made progress now.
func (q *queue) noteProgress() { q.progressAt.Store(int64(time.Since(q.born))) }

// enter takes a turn for a read, by sending to q.turns. After the read the caller returns the turn, by receiving from q.turns. enter waits
// while cap(q.turns) reads have turns. since is when the caller's time without progress begins: at the call, or at the last progress of any
// read if that is later. enter fails with ErrStalled if no read makes progress for timeout, and with the cause of ctx when ctx ends.
func (q *queue) enter(ctx context.Context, timeout time.Duration) (since time.Time, err error) {
	since = time.Now()
	for {
		select {
		case q.turns <- struct{}{}:
			return q.lastProgress(since), nil
		case <-ctx.Done():
			return since, context.Cause(ctx)
		case <-time.After(time.Until(since.Add(timeout))):
		}
		last := q.lastProgress(since)
		if last.Equal(since) {
			return since, fmt.Errorf("%w for %v", ErrStalled, timeout)
		}
		since = last
	}
}

// lastProgress returns the time of the last progress of any read, or since if that is later.
func (q *queue) lastProgress(since time.Time) time.Time {
	if last := q.born.Add(time.Duration(q.progressAt.Load())); last.After(since) {
		return last
	}
	return since
}
