package parallel

import (
	"context"
	"io"
	"sync"
)

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
