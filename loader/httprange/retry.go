package httprange

import (
	"context"
	"math/rand/v2"
	"time"
)

// fetch fills v from off on, by as many requests as it takes.
func (r *Reader) fetch(ctx context.Context, v *vector, off int64) error {
	end := off + v.n
	at := func() int64 { return end - v.n }
	for v.n > 0 {
		if err := r.retry(ctx, at, func() error { return r.request(ctx, v, at()) }); err != nil {
			return err
		}
	}
	return nil
}

// retry calls try, when it is its turn, until it succeeds, fails for good, or has failed too
// often without coming further, which at says.
func (r *Reader) retry(ctx context.Context, at func() int64, try func() error) error {
	select {
	case r.tokens <- struct{}{}:
		defer func() { <-r.tokens }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for attempt := 1; ; attempt++ {
		before := at()
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if at()-before >= leastProgress {
			attempt = 1
		}
		if !passing(err) || attempt >= r.opts.Attempts {
			return r.wrap(at(), err)
		}
		if err := sleep(ctx, r.pause(attempt, err)); err != nil {
			return err
		}
	}
}

// longestPause limits what a server may ask for by Retry-After, too.
const longestPause = time.Minute

// pause is how long to wait after so many attempts, the last of which ended in err.
func (r *Reader) pause(attempt int, err error) time.Duration {
	pause := r.opts.Pause << min(attempt-1, 6)
	pause = pause/2 + rand.N(pause/2+1) // so that many readers do not come back together
	return min(max(pause, retryAfter(err)), longestPause)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
