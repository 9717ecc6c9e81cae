package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows on a terminal how far long work has come: how much of how much, how
// fast, and how long it has taken and will take.
type Progress struct {
	w     io.Writer // nil if nobody looks
	what  string
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	total uint64
}

// NewProgress shows the progress of work described by what. Its method Update is the callback
// that loader and convert take.
func NewProgress(w io.Writer, what string) *Progress {
	if !IsTerminal(w) {
		return &Progress{}
	}
	return &Progress{w: &patient{w, time.Now().Add(ProgressDelay)}, what: what}
}

func (p *Progress) Update(done, total uint64) {
	if p.w == nil || total > math.MaxInt64 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil || total != p.total {
		p.erase()
		p.bar, p.total = newBar(p.w, p.what, int64(total)), total
	}
	p.bar.Set64(int64(done)) // a bar that cannot be drawn is no reason to stop
}

// Clear takes the bar away.
func (p *Progress) Clear() {
	p.Hide()
	p.bar = nil
}

// Hide erases the bar, so that other text can be written. The next update draws it again.
func (p *Progress) Hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Progress) erase() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

const ProgressDelay = 200 * time.Millisecond

// patient shows nothing of work that is done before anybody would look.
type patient struct {
	w    io.Writer
	from time.Time
}

func (p *patient) Write(b []byte) (int, error) {
	if time.Now().Before(p.from) {
		return len(b), nil
	}
	return p.w.Write(b)
}

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

// oneWord is how long one word of waiting serves for all reads that wait.
const oneWord = 2 * time.Second

// Waiting returns a function that tells a person which server is silent. It says nothing if w is no
// terminal, nor again while the last word is fresh: several reads wait at once.
func Waiting(w io.Writer) func(host string) {
	if !IsTerminal(w) {
		return nil
	}
	return waiting(w)
}

func waiting(w io.Writer) func(host string) {
	var mu sync.Mutex
	var said time.Time
	return func(host string) {
		mu.Lock()
		defer mu.Unlock()
		if !said.IsZero() && time.Since(said) < oneWord {
			return
		}
		said = time.Now()
		clear := ""
		if os.Getenv("TERM") != "dumb" {
			clear = "\r\x1b[K" // of a progress bar
		}
		fmt.Fprintf(w, "%swaiting for %s …\n", clear, Printable(host))
	}
}
