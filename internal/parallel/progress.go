package parallel

import (
	"context"
	"io"
	"sync"
)

// Progress counts what workers have done.
type Progress struct {
	// Report, if set, hears how much of how much is done: from one goroutine at a time, with
	// done never falling.
	Report func(done, total uint64)
	// Total is how much there is to do.
	Total uint64

	mu   sync.Mutex // held while Report hears
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

// Writer passes writes on in pieces. It looks at its context before each, so that an interrupt is noticed.
type Writer struct {
	Ctx context.Context
	W   io.Writer
	// Wrote, if set, hears how many bytes each piece had.
	Wrote func(n int)
}

const writerPiece = 8 << 20

func (w *Writer) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		if err := context.Cause(w.Ctx); err != nil {
			return written, err
		}
		n, err := w.W.Write(b[:min(len(b), writerPiece)])
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
