package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Current is the model that a server serves now, with the weights W that were bound of it. Its methods may be
// called at once. The zero value serves none.
type Current[W any] struct {
	serving atomic.Pointer[serving[W]]

	mu       sync.Mutex
	draining []*Model // swapped out; leases or calls may still hold their memory
	gone     Stats    // counters of those whose memory is released
}

type serving[W any] struct {
	model *Model
	bound W
}

// Swap makes m the current model and bound what Acquire returns beside its leases. It closes the model before, which
// drains: it goes with its last lease. Swap does not wait for that. The error is of unmapping that model.
func (c *Current[W]) Swap(m *Model, bound W) error { return c.swap(&serving[W]{m, bound}) }

// Close closes the current model. Acquire returns ErrClosed from then on, until another Swap.
func (c *Current[W]) Close() error { return c.swap(nil) }

// swap makes next current, or nothing if it is nil, and closes the model before. The error is of unmapping that model.
// It is no error if somebody has closed the model.
func (c *Current[W]) swap(next *serving[W]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.serving.Swap(next)
	if last == nil {
		return nil
	}
	c.draining = append(c.draining, last.model)
	c.forget()
	if err := last.model.Close(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil // closed by somebody else
}

// Acquire takes a lease of the current model, and returns what was bound of that model. Tensors among it work while
// the lease is held, across a Swap too. Only those taken from the lease ([Lease.Of]) end with ctx and pin what they
// hand out. The error is ErrClosed if there is no current model or somebody has closed it, or the cause of ctx.
func (c *Current[W]) Acquire(ctx context.Context) (bound W, lease *Lease, err error) {
	for {
		s := c.serving.Load()
		if s == nil {
			return bound, nil, fmt.Errorf("no current model: %w", ErrClosed)
		}
		if lease, err = s.model.AcquireContext(ctx); err == nil {
			return s.bound, lease, nil
		}
		if c.serving.Load() == s {
			return bound, nil, err
		} // else it was swapped out meanwhile
	}
}

// CurrentStats says what a [Current] costs and has done.
type CurrentStats struct {
	// Stats has the number of tensors of the current model, and Closed if there is none. The rest are sums: sizes and leases over
	// the models whose memory is not released, counters over these and all before.
	Stats
	Draining int // models that were swapped out and whose memory is not released
}

// Stats adds up the counters of the current model and of all before it.
func (c *Current[W]) Stats() CurrentStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	sum := CurrentStats{Stats: c.gone, Draining: len(c.draining)}
	for _, m := range c.draining {
		sum.add(m.Stats())
	}
	sum.Closed = true
	if s := c.serving.Load(); s != nil {
		stats := s.model.Stats()
		sum.add(stats)
		sum.Tensors, sum.Closed = stats.Tensors, stats.Closed
	}
	return sum
}

// forget removes models whose memory is released from c.draining, and adds their counters to c.gone. The caller locks
// c.mu.
func (c *Current[W]) forget() {
	draining := c.draining[:0]
	for _, m := range c.draining {
		if m.gone() {
			c.gone.add(m.Stats())
		} else {
			draining = append(draining, m)
		}
	}
	clear(c.draining[len(draining):])
	c.draining = draining
}

// add adds the sizes and counters o of another model to s. Tensors and Closed stay.
func (s *Stats) add(o Stats) {
	s.Leases += o.Leases
	s.MappedBytes += o.MappedBytes
	s.UnmappedBytes += o.UnmappedBytes
	s.HeapBytes += o.HeapBytes
	s.VerifiedBytes += o.VerifiedBytes
	s.PrivateBytes += o.PrivateBytes
	s.Hits += o.Hits
	s.Expansions += o.Expansions
	s.ExpandedBytes += o.ExpandedBytes
	s.Evictions += o.Evictions
}
