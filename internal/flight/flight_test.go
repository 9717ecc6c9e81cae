package flight

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
)

var (
	errLate  = errors.New("the deadline of one caller")
	errSorry = errors.New("sorry")
)

// answer is what Do has returned.
type answer struct {
	value int
	err   error
}

// ask calls Do in a goroutine of its own, which waits or fills when ask returns.
func ask(g *Group[int, int], ctx context.Context, fill func(context.Context) (int, error)) chan answer {
	c := make(chan answer, 1)
	go func() {
		value, err := g.Do(ctx, 1, fill)
		c <- answer{value, err}
	}()
	synctest.Wait()
	return c
}

// TestDo has fifty callers wait for a fill that ends in each way, and counts the fills.
func TestDo(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(ctx context.Context, cancel context.CancelCauseFunc) (int, error) // of the first fill
		first answer
		rest  answer
		fills int32
	}{
		"value": {func(context.Context, context.CancelCauseFunc) (int, error) { return 7, nil }, answer{7, nil}, answer{7, nil}, 1},
		"error": {func(context.Context, context.CancelCauseFunc) (int, error) { return 0, errSorry }, answer{0, errSorry}, answer{0, errSorry}, 1},
		"cancelled": {func(ctx context.Context, cancel context.CancelCauseFunc) (int, error) {
			cancel(errLate)
			return 0, context.Cause(ctx)
		}, answer{0, errLate}, answer{8, nil}, 2},
		"cancelled too late": {func(_ context.Context, cancel context.CancelCauseFunc) (int, error) {
			cancel(errLate)
			return 7, nil
		}, answer{7, nil}, answer{7, nil}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g Group[int, int]
				var fills atomic.Int32
				begin := make(chan struct{})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				first := ask(&g, ctx, func(ctx context.Context) (int, error) {
					fills.Add(1)
					<-begin
					return test.end(ctx, cancel)
				})
				var rest []chan answer
				for range 50 {
					rest = append(rest, ask(&g, t.Context(), func(context.Context) (int, error) { fills.Add(1); return 8, nil }))
				}
				close(begin)
				if got := <-first; got != test.first {
					t.Errorf("the first caller has %v", got)
				}
				for _, c := range rest {
					if got := <-c; got != test.rest {
						t.Errorf("a caller that waited has %v", got)
					}
				}
				synctest.Wait()
				if fills.Load() != test.fills || len(g.calls) != 0 {
					t.Errorf("%d fills, %d turns left", fills.Load(), len(g.calls))
				}
				if got := <-ask(&g, t.Context(), func(context.Context) (int, error) { return 9, nil }); got != (answer{9, nil}) {
					t.Errorf("a caller that came later has %v", got)
				}
			})
		})
	}
}

// TestDoLeaves has a caller that waits leave with its context. The fill goes on.
func TestDoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int]
		end := make(chan struct{})
		first := ask(&g, t.Context(), func(ctx context.Context) (int, error) { <-end; return 7, ctx.Err() })
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := ask(&g, ctx, nil)
		cancel(errLate)
		if got := <-waiting; got != (answer{0, errLate}) {
			t.Error(got)
		}
		close(end)
		if got := <-first; got != (answer{7, nil}) {
			t.Error(got)
		}
		if got := <-ask(&g, ctx, nil); got != (answer{0, errLate}) {
			t.Errorf("a caller whose context has ended has %v", got)
		}
	})
}

// TestDoPanics has a fill end as it should not, with a caller waiting, which fills instead.
func TestDoPanics(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic(errSorry) }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			var g Group[int, int]
			begin := make(chan struct{})
			var panicked any
			var exited bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				panicked, exited = paralleltest.Ending(func() {
					g.Do(t.Context(), 1, func(context.Context) (int, error) { <-begin; end(); return 0, nil })
				})
			}()
			synctest.Wait()
			waiting := ask(&g, t.Context(), func(context.Context) (int, error) { return 8, nil })
			close(begin)
			<-done
			if name == "panic" && panicked != errSorry || name == "Goexit" && !exited {
				t.Errorf("%s: recovered %v, exited %v", name, panicked, exited)
			}
			if got := <-waiting; got != (answer{8, nil}) {
				t.Errorf("%s: the caller that waited has %v", name, got)
			}
			synctest.Wait()
			if len(g.calls) != 0 {
				t.Errorf("%s: %d turns left", name, len(g.calls))
			}
		})
	}
}

// TestDoKeysAreApart fills two keys at once.
func TestDoKeysAreApart(t *testing.T) {
	var g Group[int, int]
	value, err := g.Do(t.Context(), 1, func(ctx context.Context) (int, error) {
		return g.Do(ctx, 2, func(context.Context) (int, error) { return 5, nil })
	})
	if value != 5 || err != nil {
		t.Error(value, err)
	}
}

// TestResultAfterLeaving: others get a result only once later callers cannot. Else one that has got an error, and tries again, might get
// the same error without a try. Where the second caller gets no processor in time, it has both to choose from: then it tries again.
func TestResultAfterLeaving(t *testing.T) {
	var got answer
	for range 10 {
		if got = answerBeforeLeaving(t); got.err == errLate {
			return
		}
	}
	t.Errorf("%+v while the first caller has not left", got)
}

// answerBeforeLeaving returns what a second caller gets whose context ends after the first caller's fill, and before that caller can leave.
func answerBeforeLeaving(t *testing.T) answer {
	var g Group[int, int]
	filling, waits, blocked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		g.Do(t.Context(), 1, func(context.Context) (int, error) {
			close(filling)
			<-waits
			g.mu.Lock() // so that the caller cannot leave
			close(blocked)
			return 7, nil
		})
	})
	defer first.Wait()
	<-filling // the second caller must not be the one that fills
	ctx, cancel := context.WithCancelCause(t.Context())
	second := make(chan answer, 1)
	go func() {
		value, err := g.Do(ctx, 1, func(context.Context) (int, error) { return 8, nil })
		second <- answer{value, err}
	}()
	for g.callers(1) < 2 {
		runtime.Gosched()
	}
	close(waits)
	<-blocked
	time.Sleep(10 * time.Millisecond) // time to get a result that is there too early
	cancel(errLate)
	time.Sleep(10 * time.Millisecond)
	g.mu.Unlock()
	return <-second
}

// callers returns how many callers the call of key has.
func (g *Group[K, V]) callers(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if call := g.calls[key]; call != nil {
		return call.callers
	}
	return 0
}
