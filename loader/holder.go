package loader

import (
	"context"

	"github.com/tensormap/tensormap/mmapio"
)

// holder is a Model or a Lease. Its methods call hold first and leave at their end, so that it stays open meanwhile.
type holder interface {
	// hold keeps the Model or the Lease open until the caller calls leave. It returns the model, and the context that
	// ends calls. It fails with ErrClosed, or with the cause if the context of a lease has ended. After an error, leave
	// must not be called.
	hold() (*Model, context.Context, error)
	leave()
}

// hold keeps the model open until leave, and returns it with the context that ends its reads. It fails with ErrClosed.
func (m *Model) hold() (*Model, context.Context, error) { return m, m.source.baseContext(), m.enter() }

// hold keeps the lease from ending until leave. It fails with ErrClosed after Release, or with the cause of the
// lease's ended context.
func (l *Lease) hold() (*Model, context.Context, error) {
	if err := l.enter(); err != nil {
		return nil, nil, l.wrap(err)
	}
	return l.model, l.ctx, nil
}

// whileOpen calls f with the model of h, a Model or a Lease, and holds h open until f returns. The context of f ends with ctx and
// with that of h. It fails with ErrClosed if h is closed, or with the cause if the context of a lease has ended. It fails if f does,
// or if a mapped file has lost bytes that f reads.
func whileOpen(ctx context.Context, h holder, f func(ctx context.Context, m *Model) error) error {
	_, err := readWhileOpen(ctx, h, func(ctx context.Context, m *Model) (struct{}, error) { return struct{}{}, f(ctx, m) })
	return err
}

// readWhileOpen does what whileOpen does, and returns the result of f as well. After an error, found is unspecified.
func readWhileOpen[T any](ctx context.Context, h holder, f func(ctx context.Context, m *Model) (T, error)) (found T, err error) {
	m, holderCtx, err := h.hold()
	if err != nil {
		return found, err
	}
	defer h.leave()
	if holderCtx.Done() != nil { // else it never ends
		var stop func()
		ctx, stop = contextOfBoth(ctx, holderCtx)
		defer stop()
	}
	err = mmapio.Guard(func() error {
		found, err = f(ctx, m)
		return err
	})
	return found, err
}
