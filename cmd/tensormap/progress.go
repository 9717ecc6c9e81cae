package main

import (
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far long work has come. Work that is done before
// anybody would look for a bar gets none.
type progress struct {
	w     io.Writer
	what  string
	begun time.Time
	bar   *progressbar.ProgressBar
	total uint64
}

const progressDelay = 200 * time.Millisecond

// newProgress is for work described by what. The result's update is the callback that
// loader and convert take.
func newProgress(w io.Writer, what string) *progress {
	if !isTerminal(w) {
		return &progress{}
	}
	return &progress{w: w, what: what, begun: time.Now()}
}

func (p *progress) update(done, total uint64) {
	if p.w == nil || total > math.MaxInt64 {
		return
	}
	if p.bar == nil || total != p.total {
		if time.Since(p.begun) < progressDelay {
			return
		}
		p.clear()
		p.bar, p.total = newBar(p.w, p.what, int64(total)), total
	}
	p.bar.Set64(int64(done)) // a bar that cannot be drawn is no reason to stop
}

// clear takes the bar away.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

func newBar(w io.Writer, what string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(65*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetTheme(progressbar.Theme{
			Saucer: "━", SaucerHead: "━", SaucerPadding: "─", BarStart: "", BarEnd: "",
		}),
	)
}
