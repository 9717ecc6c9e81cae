package loader

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/loader/internal/cache"
)

// Lease keeps a model's memory in place while a piece of work, such as one request of a
// server, uses it. Tensors taken from the lease work until its release, even when the
// model is closed meanwhile.
//
// A lease pins in the model's cache the copies that Bytes and View of its tensors handed out, and
// the values of Float32s. ReadAt, DequantizeRange, MatVec and the like pin packed tensors (layout.Encoding.Packed),
// since a part of one costs as much as the whole. WriteTo and Values pin nothing beyond their end.
// Work on many such tensors takes a lease for each, or its memory grows with their number.
type Lease struct {
	model  *Model
	gate   gate
	pins   cache.Pins
	warmed cache.Pins  // elements that only Warm has asked for
	warm   atomic.Bool // warmed may hold some

	ctx  context.Context // of the calls through it
	stop func()          // called at its end, or nil
}

// Acquire takes a lease, or returns ErrClosed. Every lease must be released.
func (m *Model) Acquire() (*Lease, error) { return m.AcquireContext(context.Background()) }

// AcquireContext takes a lease whose calls end with ctx. Once ctx has ended they return its cause.
// Reads by a [Source] end at once, as does waiting for a tensor that another call copies
// or expands. Reading a file of this system, and expanding, go on to their end. The lease must be
// released all the same.
func (m *Model) AcquireContext(ctx context.Context) (*Lease, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	if !m.leases.enter() {
		m.leave()
		return nil, m.closedError()
	}
	l := &Lease{model: m, ctx: m.from.life()}
	m.trace(l)
	if ctx.Done() != nil {
		l.ctx, l.stop = joined(ctx, l.ctx)
	}
	return l, nil
}

// Path returns what the model's Path does.
func (l *Lease) Path() string { return l.model.path }

// trace notes the time and the stack of the caller that takes l, if Options.TraceLeases is set.
func (m *Model) trace(l *Lease) {
	if !m.opts.TraceLeases {
		return
	}
	callers := make([]uintptr, 32)
	m.traced.Store(l, tracedLease{time.Now(), callers[:runtime.Callers(3, callers)]})
}

// enter holds the lease for the length of a call, until leave. The error is ErrClosed, or why its context has ended.
func (l *Lease) enter() error {
	if !l.gate.enter() {
		return ErrClosed
	}
	if l.ctx.Err() != nil {
		l.leave()
		return context.Cause(l.ctx)
	}
	return nil
}

// Release ends the lease. Calls that are still running through it finish first, without
// Release waiting for them. A second Release does nothing.
func (l *Lease) Release() {
	if _, last := l.gate.close(); last {
		l.finish()
	}
}

// finish unpins all that a released lease has pinned, and leaves the model. The last lease of a closed model ends the
// reads that are still under way. It is called once: by Release, or by the last call that was running then.
func (l *Lease) finish() {
	l.model.cache.Unpin(&l.pins)
	l.model.cache.Unpin(&l.warmed)
	if l.stop != nil {
		l.stop()
	}
	if l.model.opts.TraceLeases {
		l.model.traced.Delete(l)
	}
	if l.model.leases.leave() {
		l.model.from.end()
	}
	l.model.leave()
}

// leave ends enter. The last call of a released lease finishes it.
func (l *Lease) leave() {
	if l.gate.leave() {
		l.finish()
	}
}

func (l *Lease) wrap(err error) error { return fmt.Errorf("%s: lease: %w", l.model.path, err) }
