package plan

import (
	"context"
	"sync"
	"time"
)

// rate spreads reading over time. Since the beginning, no more has been let through at any moment
// than may have been read by then.
type rate struct {
	bytesPerSecond uint64 // 0: as fast as it goes

	mu   sync.Mutex
	free time.Time // when all that has asked so far has had its time
}

// wait lets n bytes through when it is their time.
func (r *rate) wait(ctx context.Context, n uint64) error {
	if r.bytesPerSecond == 0 || n == 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	select {
	case <-time.After(r.reserve(now, n).Sub(now)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// catchUp is how much of the time that reading itself took may be made up for. More, because a
// disk stood still, say, is lost: nobody waits for a gulp.
const catchUp = time.Second / 4

// reserve returns when n bytes that ask now may go: once their time has passed.
func (r *rate) reserve(now time.Time, n uint64) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free.IsZero() {
		r.free = now
	} else if earliest := now.Add(-catchUp); r.free.Before(earliest) {
		r.free = earliest
	}
	r.free = r.free.Add(time.Duration(float64(n) / float64(r.bytesPerSecond) * float64(time.Second)))
	return r.free
}
