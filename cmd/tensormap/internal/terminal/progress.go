package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/tensormap/tensormap/internal/report"
	"golang.org/x/time/rate"
)

// Progress shows on a terminal the progress of long work: how much is done of how much, how
// fast, how long it has taken and will take. Work that takes less than ProgressDelay shows nothing.
type Progress struct {
	w     io.Writer // nil if progress is not shown, because the output is no terminal
	what  string
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil before the first update
	total uint64
}

// ProgressDelay is how long work takes before its progress is shown.
const ProgressDelay = 200 * time.Millisecond

// NewProgress returns the progress of work described by what. It shows nothing unless w is a terminal. Its method
// Update is the callback that loader and convert take.
func NewProgress(w io.Writer, what string) *Progress {
	if !IsTerminal(w) {
		return &Progress{}
	}
	return &Progress{w: &delayedWriter{w, time.Now().Add(ProgressDelay)}, what: what}
}

// Update shows that done of total bytes are done. Another total than the total of the last update begins a new bar.
func (p *Progress) Update(done, total uint64) {
	if p.w == nil || total > math.MaxInt64 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil || total != p.total {
		if p.bar != nil {
			p.bar.Clear()
		}
		p.bar, p.total = newBar(p.w, p.what, int64(total)), total
	}
	p.bar.Set64(int64(done)) // a bar that cannot be drawn is no reason to stop
}

// Clear erases the bar, so that other text can be written. The next update draws it again.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
	}
}

// delayedWriter discards what is written before from.
type delayedWriter struct {
	w    io.Writer
	from time.Time
}

// Write writes b, or discards it before the time has come.
func (d *delayedWriter) Write(b []byte) (int, error) {
	if time.Now().Before(d.from) {
		return len(b), nil
	}
	return d.w.Write(b)
}

// newBar returns a progress bar on w for work on total bytes, described by what. It clears itself at the end.
func newBar(w io.Writer, what string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(65*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionUseANSICodes(os.Getenv("TERM") != "dumb"), // clears what is typed behind the bar, such as ^C
		progressbar.OptionSetTheme(progressbar.Theme{
			Saucer: "━", SaucerHead: "━", SaucerPadding: "─", BarStart: "", BarEnd: "",
		}),
	)
}

// waitingPause is how long no other note of waiting follows one: several reads wait at once.
const waitingPause = 2 * time.Second

// Waiting returns a function that notes on w that the program waits for a host, which sends nothing. It writes at most one note in
// waitingPause. Waiting returns nil unless w is a terminal.
func Waiting(w io.Writer) func(host string) {
	if !IsTerminal(w) {
		return nil
	}
	return noteWaiting(w)
}

// noteWaiting does what Waiting does for any w.
func noteWaiting(w io.Writer) func(host string) {
	atMost := rate.Sometimes{Interval: waitingPause}
	clear := ""
	if os.Getenv("TERM") != "dumb" {
		clear = "\r\x1b[K" // of a progress bar
	}
	return func(host string) {
		atMost.Do(func() { fmt.Fprintf(w, "%swaiting for %s …\n", clear, report.Printable(host)) })
	}
}
