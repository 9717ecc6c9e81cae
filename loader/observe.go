package loader

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
)

// Hooks are called on events that a server counts. They must not block, and may be called by
// several goroutines. Hooks is a struct of functions, not an interface: those that are nil cost
// nothing, and new ones break nobody.
type Hooks struct {
	// Expanded is called after a tensor was copied or expanded into the cache, or could not be.
	Expanded func(tensor string, bytes uint64, took time.Duration, err error)
	// Gone is called once a closed model's memory is gone, with the time since Close.
	Gone func(drained time.Duration)
}

// HeldLease describes a lease that is not released.
type HeldLease struct {
	Taken time.Time
	Stack string // of the goroutine that took it: a function and its line per two lines
}

// heldLease is made for each lease if Options.TraceLeases is set.
type heldLease struct {
	taken   time.Time
	callers []uintptr
}

// trace notes who takes l.
func (m *Model) trace(l *Lease) {
	if !m.opts.TraceLeases {
		return
	}
	callers := make([]uintptr, 32)
	m.held.Store(l, heldLease{time.Now(), callers[:runtime.Callers(3, callers)]})
}

// HeldLeases lists the leases that are not released, and who took them. It needs
// Options.TraceLeases; otherwise it returns nil, and Stats has their number.
func (m *Model) HeldLeases() (list []HeldLease) {
	m.held.Range(func(_, v any) bool {
		h := v.(heldLease)
		var stack strings.Builder
		frames := runtime.CallersFrames(h.callers)
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			fmt.Fprintf(&stack, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		list = append(list, HeldLease{h.taken, stack.String()})
		return true
	})
	return list
}

// log writes a record about the model, if there is a logger.
func (m *Model) log(level slog.Level, msg string, args ...any) {
	if m.opts.Logger != nil {
		m.opts.Logger.With("model", m.path).Log(context.Background(), level, msg, args...)
	}
}

// Done returns a channel that is closed once the model is gone: closed, its last lease released, its
// last call returned, its memory unmapped. Readers handed to OpenReaderAt may be closed then.
func (m *Model) Done() <-chan struct{} { return m.done }

func (m *Model) gone() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
