package loader

import "context"

// holder is a Model or a Lease. A call holds either for its length.
type holder interface {
	// hold enters, and returns the context of calls. The caller leaves.
	hold() (*Model, context.Context, error)
	leave()
}

func (m *Model) hold() (*Model, context.Context, error) { return m, m.from.life(), m.enter() }

func (l *Lease) hold() (*Model, context.Context, error) {
	if err := l.enter(); err != nil {
		return nil, nil, l.wrap(err)
	}
	return l.model, l.ctx, nil
}

// holding returns what f finds in the model while h holds it.
func holding[T any](h holder, f func(ctx context.Context, m *Model) (T, error)) (found T, err error) {
	m, ctx, err := h.hold()
	if err != nil {
		return found, err
	}
	defer h.leave()
	return f(ctx, m)
}
