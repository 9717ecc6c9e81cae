package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// timeout is a flag: how long to wait for a server that makes no progress. The zero value is
// the default.
type timeout time.Duration

const defaultTimeout = 30 * time.Second

func (t *timeout) String() string { return t.duration().String() }
func (t *timeout) Type() string   { return "time" }

// Set takes what time.ParseDuration does, and a bare number as seconds.
func (t *timeout) Set(s string) error {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("must be a time such as 30s or 5m")
	}
	*t = timeout(d)
	return nil
}

func (t timeout) duration() time.Duration {
	if t == 0 {
		return defaultTimeout
	}
	return time.Duration(t)
}

// waiting tells a person when reads from a server have made no progress for a while.
type waiting struct {
	w     io.Writer
	host  string
	delay time.Duration

	mu      sync.Mutex
	readers []*httprange.Reader
	reads   int // under way
	bytes   int64
	timer   *time.Timer
}

// newWaiting writes to w if that is a terminal. The word comes before the timeout does.
func newWaiting(w io.Writer, host string, t timeout) *waiting {
	if !isTerminal(w) {
		w = nil
	}
	return &waiting{w: w, host: host, delay: min(3*time.Second, t.duration()/2)}
}

// add makes the bytes that r receives count as progress.
func (n *waiting) add(r *httprange.Reader) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.readers = append(n.readers, r)
}

// during calls read, and watches it.
func (n *waiting) during(read func() error) error {
	if n.w == nil {
		return read()
	}
	n.count(1)
	defer n.count(-1)
	return read()
}

// count notes that a read has begun or ended, which is progress.
func (n *waiting) count(change int) {
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

func (n *waiting) traffic() (sum int64) {
	for _, r := range n.readers {
		_, bytes := r.Traffic()
		sum += bytes
	}
	return sum
}

// check says that nothing has come since the timer was set, or sets it again.
func (n *waiting) check() {
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
	fmt.Fprintf(n.w, "%swaiting for %s …\n", clear, printable(n.host))
}
