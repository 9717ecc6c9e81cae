package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// Waiting tells a person when reads from a server have made no progress for a while.
type Waiting struct {
	w     io.Writer
	host  string
	delay time.Duration

	mu      sync.Mutex
	readers []*httprange.Reader
	reads   int // under way
	bytes   int64
	timer   *time.Timer
}

// NewWaiting writes to w if that is a terminal. The word comes before the timeout does.
func NewWaiting(w io.Writer, host string, timeout time.Duration) *Waiting {
	if !IsTerminal(w) {
		w = nil
	}
	return &Waiting{w: w, host: host, delay: min(3*time.Second, timeout/2)}
}

// Add makes the bytes that r receives count as progress.
func (n *Waiting) Add(r *httprange.Reader) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.readers = append(n.readers, r)
}

// During calls read, and watches it.
func (n *Waiting) During(read func() error) error {
	if n.w == nil {
		return read()
	}
	n.count(1)
	defer n.count(-1)
	return read()
}

// count notes that a read has begun or ended, which is progress.
func (n *Waiting) count(change int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads += change
	switch {
	case n.timer == nil:
		n.timer = time.AfterFunc(n.delay, n.check)
	case n.reads == 0:
		n.timer.Stop()
	case change < 0 || n.reads == 1:
		n.bytes = n.traffic()
		n.timer.Reset(n.delay)
	}
}

func (n *Waiting) traffic() (sum int64) {
	for _, r := range n.readers {
		_, bytes := r.Traffic()
		sum += bytes
	}
	return sum
}

// check says that nothing has come since the timer was set, or sets it again.
func (n *Waiting) check() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reads == 0 {
		return // the timer could not be stopped any more
	}
	if now := n.traffic(); now != n.bytes {
		n.bytes = now
		n.timer.Reset(n.delay)
		return
	}
	clear := ""
	if os.Getenv("TERM") != "dumb" {
		clear = "\r\x1b[K" // of a progress bar
	}
	fmt.Fprintf(n.w, "%swaiting for %s …\n", clear, Printable(n.host))
}
