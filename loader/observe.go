package loader

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// HeldLease describes a lease that is not released.
type HeldLease struct {
	Taken time.Time // the time of Acquire
	Stack string    // of the goroutine that took it: for each call its function and, on a second line, its file and line
}

// tracedLease is made for each lease if Options.TraceLeases is set.
type tracedLease struct {
	taken   time.Time
	callers []uintptr
}

// HeldLeases lists the leases that are not released, and who took them. It needs
// Options.TraceLeases; otherwise it returns nil, and Stats has their number.
func (m *Model) HeldLeases() (list []HeldLease) {
	m.tracedLeases.Range(func(_, v any) bool {
		h := v.(tracedLease)
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

// Done returns a channel that is closed once the model is gone: closed, its last lease released, its
// last call returned, its memory unmapped. Readers handed to OpenReaderAt may be closed then.
func (m *Model) Done() <-chan struct{} { return m.done }

// gone reports whether the model is closed and its memory released.
func (m *Model) gone() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
