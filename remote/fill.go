package remote

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
)

// backgroundFill fetches the rest of a model's files in the background, one after the other, while the model is open. A nil
// backgroundFill does nothing.
type backgroundFill struct {
	waitingReads atomic.Int64 // reads of all files that wait for bytes: they go first

	mu       sync.Mutex
	files    []*file
	stop     context.CancelFunc // nil before start
	running  parallel.Group
	waitOnce sync.Once
}

// addFile adds f, a file of the model, to the files that start will fetch.
func (l *backgroundFill) addFile(f *file) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, f)
}

// start begins to fetch the files that were added to l, at least one, in the background, one after the other. It skips files that are
// complete. It logs the first failure, and then fetches no more. Otherwise it calls report at the end. It may be called once; for a nil l
// it does nothing.
func (l *backgroundFill) start(o *Options) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	files := l.files
	l.running.Go(func() error {
		for _, f := range files {
			if f.complete != nil || f.cancelFinalizing != nil { // complete, or moving to its final path already
				continue
			}
			if err := f.fetchRest(ctx, func(int64, int64) { l.report(files) }); err != nil {
				if ctx.Err() == nil {
					o.logger().Warn("the model's files are not completed", "file", f.Name(), "reason", err)
				}
				return nil
			}
		}
		l.report(files)
		return nil
	})
}

// report calls Options.Progress, if set, with the number of bytes of files that are present, and the total of their sizes. files has at
// least one.
func (l *backgroundFill) report(files []*file) {
	var have, total int64
	for _, f := range files {
		total += f.size
		if f.partial != nil {
			have += f.partial.Have()
		} else if f.complete != nil {
			have += f.size
		}
	}
	if progress := files[0].opts.Progress; progress != nil {
		progress(have, total)
	}
}

// end stops fetching, and waits until that has stopped. It does nothing before start. If the caller's Progress or transport has panicked
// in the background, the first call of end panics too.
func (l *backgroundFill) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	if stop != nil {
		stop()
		l.waitOnce.Do(func() { l.running.Wait() })
	}
}
