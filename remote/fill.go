package remote

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
)

// filling brings the rest of a model's files, one after the other, while the model is open.
type filling struct {
	asked atomic.Int64 // reads of all files that wait for bytes

	mu      sync.Mutex
	files   []*file
	stop    context.CancelFunc // nil before start
	running parallel.Group
	ended   sync.Once
}

// add enters a file that the model reads.
func (l *filling) add(f *file) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, f)
}

// start begins, once the model is open. Files that are opened later come as they are read.
func (l *filling) start(o *Options) {
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
			if f.whole != nil || f.part != nil && f.unsettle != nil {
				continue
			}
			if err := f.fill(ctx, func(int64, int64) { l.report(files) }); err != nil {
				if ctx.Err() == nil {
					o.logger().Warn("model is not brought to its end", "file", f.Name(), "reason", err)
				}
				return nil
			}
		}
		l.report(files)
		return nil
	})
}

// report tells how many bytes of all files are there.
func (l *filling) report(files []*file) {
	var have, total int64
	for _, f := range files {
		total += f.size
		if f.part != nil {
			have += f.part.Have()
		} else if f.whole != nil {
			have += f.size
		}
	}
	if progress := files[0].opts.Progress; progress != nil {
		progress(have, total)
	}
}

// end stops filling, and waits for that. A panic of the caller's Progress or transport reaches the first who calls it: Close.
func (l *filling) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	if stop != nil {
		stop()
		l.ended.Do(func() { l.running.Wait() })
	}
}
