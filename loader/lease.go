package loader

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// Lease keeps a model's memory in place while some work, such as one request of a
// server, uses it. Tensors taken from the lease work until its release, even when the
// model is closed meanwhile.
//
// A lease pins in the model's cache the copies that Bytes and View of its tensors handed out, and
// the values of Float32s. ReadAt, DequantizeRange, MatVec and the like pin packed tensors (layout.Encoding.Packed),
// since a part of one costs as much as the whole. WriteTo and Values pin nothing beyond their end.
// Work on many such tensors takes a lease for each, or its memory grows with their number.
type Lease struct {
	model      *Model
	gate       gate
	pins       cache.Pins
	warmedPins cache.Pins // which pins.Warmed points to

	ctx     context.Context // of the calls through it
	stopCtx func()          // called at its end, or nil
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
	if !m.leaseGate.enter() {
		m.leave()
		return nil, m.closedError()
	}
	l := &Lease{model: m, ctx: m.source.baseContext()}
	l.pins.Warmed = &l.warmedPins
	m.recordLease(l)
	if ctx.Done() != nil {
		l.ctx, l.stopCtx = contextOfBoth(ctx, l.ctx)
	}
	return l, nil
}

// Path returns the path of the lease's model: a lease is a Source of package bind.
func (l *Lease) Path() string { return l.model.path }

// Model returns the model that l keeps open. Methods of the model do not know of the lease: they fail once it is closed.
func (l *Lease) Model() *Model { return l.model }

// recordLease records when and by which calls the lease was taken, if Options.TraceLeases is set. Its caller is AcquireContext.
func (m *Model) recordLease(l *Lease) {
	if !m.opts.TraceLeases {
		return
	}
	callers := make([]uintptr, 32)
	n := runtime.Callers(3, callers) // without Callers, recordLease and AcquireContext
	m.tracedLeases.Store(l, tracedLease{time.Now(), callers[:n]})
}

// enter keeps the lease from ending until leave. It fails with ErrClosed after Release, or with the cause of the
// lease's ended context.
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

// finish unpins what the released lease has pinned in the cache, and counts it off twice: as a lease, and as a user of the model. The last
// lease of a closed model ends reads that are under way. The last user frees the model. It runs once: in Release, or at the end of the
// lease's last running call.
func (l *Lease) finish() {
	l.model.cache.Unpin(&l.pins)
	l.model.cache.Unpin(&l.warmedPins)
	if l.stopCtx != nil {
		l.stopCtx()
	}
	if l.model.opts.TraceLeases {
		l.model.tracedLeases.Delete(l)
	}
	if last := l.model.leaseGate.leave(); last {
		l.model.source.endReads()
	}
	l.model.leave()
}

// leave ends a call through the lease that began with enter. The last such call of a released lease finishes the lease.
func (l *Lease) leave() {
	if l.gate.leave() {
		l.finish()
	}
}

// wrap returns err, an error of the lease itself, with the name of the model.
func (l *Lease) wrap(err error) error { return fmt.Errorf("%s: lease: %w", l.model.path, err) }

// whileOpen calls f and holds the lease l open until f returns, or the model if l is nil. The context of f ends with ctx and with the context of
// the lease or the model. whileOpen fails with ErrClosed if the lease or the model is closed already. It also fails with ErrClosed if closing
// the model has ended the context of f, and f fails. It fails with the cause if the context of the lease has ended. It fails if f does, or
// if a mapped file has lost bytes that f reads.
func (m *Model) whileOpen(ctx context.Context, l *Lease, f func(ctx context.Context) error) error {
	_, err := readWhileOpen(ctx, m, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// readWhileOpen does what whileOpen does, and returns the result of f as well. After an error, found is unspecified.
func readWhileOpen[T any](ctx context.Context, m *Model, l *Lease, f func(ctx context.Context) (T, error)) (found T, err error) {
	holderCtx := m.source.baseContext()
	if l != nil {
		if err := l.enter(); err != nil {
			return found, l.wrap(err)
		}
		defer l.leave()
		holderCtx = l.ctx
	} else {
		if err := m.enter(); err != nil {
			return found, err
		}
		defer m.leave()
	}
	if holderCtx.Done() != nil { // else it never ends
		var stop func()
		ctx, stop = contextOfBoth(ctx, holderCtx)
		defer stop()
	}
	err = mmapio.Guard(func() error {
		found, err = f(ctx)
		return err
	})
	if err != nil && context.Cause(ctx) == ErrClosed {
		err = m.closedError() // which names the model
	}
	return found, err
}
