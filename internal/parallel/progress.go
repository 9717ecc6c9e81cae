package parallel

import "sync"

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
