package loader

import (
	"context"

	"github.com/tensormap/tensormap/mmapio"
)

// holder is a Model or a Lease. A call holds either for its length.
type holder interface {
	// hold enters, and returns the context of calls. The caller leaves.
	hold() (*Model, context.Context, error)
	leave()
}

func (m *Model) hold() (*Model, context.Context, error) { return m, m.from.life(), m.enter() }

// hold holds the lease, until leave. The error is ErrClosed or the cause of its context.
func (l *Lease) hold() (*Model, context.Context, error) {
	if err := l.enter(); err != nil {
		return nil, nil, l.wrap(err)
	}
	return l.model, l.ctx, nil
}

// holding returns what f finds in the model while h holds it. It is for methods of models and leases what Tensor.call is for
// those of tensors: f has a context that ends with ctx and with that of h, and a fault in a mapping is an error.
func holding[T any](ctx context.Context, h holder, f func(ctx context.Context, m *Model) (T, error)) (found T, err error) {
	m, own, err := h.hold()
	if err != nil {
		return found, err
	}
	defer h.leave()
	if own.Done() != nil { // else it never ends
		var stop func()
		ctx, stop = joined(ctx, own)
		defer stop()
	}
	err = mmapio.Guard(func() error {
		found, err = f(ctx, m)
		return err
	})
	return found, err
}

// none is what a method finds that only fails or does not.
type none = struct{}
