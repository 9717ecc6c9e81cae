package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Current is the model that a server serves now, with the weights W that were bound from it. Its methods may
// be called concurrently. The zero value has no model.
type Current[W any] struct {
	serving atomic.Pointer[serving[W]]

	mu        sync.Mutex
	draining  []*Model // swapped out; leases or calls may still hold their memory
	goneStats Stats    // counters of models whose memory is released
	swaps     uint64
	closed    bool
}

// serving is a model, and the weights that were bound from it.
type serving[W any] struct {
	model *Model
	bound W
}

// drains reports whether the model is closed, by whomever, and leases or calls still hold its memory.
func (s *serving[W]) drains() bool { return s.model.gate.closed() && !s.model.gone() }

// Swap makes m the current model. Acquire then returns bound with each lease of m. Swap closes the previous model, which drains.
// Swap does not wait for that: see [Current.Wait]. An error of unmapping goes to the Options.Logger of the previous model. If m is the
// current model already, only bound changes. With nil there is no current model until the next Swap. If m is closed, Swap returns ErrClosed
// and changes nothing. After [Current.Close], it closes m and returns ErrClosed, unless m is nil.
func (c *Current[W]) Swap(m *Model, bound W) (err error) {
	var last *Model // to be closed after unlocking: closing calls Hooks.Gone, which may call c
	c.mu.Lock()
	switch {
	case m == nil:
		last = c.replace(nil)
	case c.closed:
		last, err = m, fmt.Errorf("%s: no model is served any more: %w", m.path, ErrClosed)
	case m.gate.closed() || slices.Contains(c.draining, m):
		err = m.closedError()
	default:
		c.swaps++
		last = c.replace(&serving[W]{m, bound})
	}
	c.mu.Unlock()
	if last != nil {
		last.Close()
	}
	return err
}

// Close closes the current model, which drains, and ends serving: Acquire and Swap return ErrClosed from then on. A server that
// stops calls Close and Wait after its last request. It fails if the model cannot be unmapped.
func (c *Current[W]) Close() error {
	c.mu.Lock()
	c.closed = true
	last := c.replace(nil)
	c.mu.Unlock()
	if last == nil {
		return nil
	}
	if err := last.Close(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil // closed by somebody else
}

// Wait returns once the models that were swapped out or closed before the call have released their memory. It waits for the current
// model too if that is closed. If ctx ends first, it returns the cause.
func (c *Current[W]) Wait(ctx context.Context) error {
	c.mu.Lock()
	draining := slices.Clone(c.draining)
	if s := c.serving.Load(); s != nil && s.drains() {
		draining = append(draining, s.model)
	}
	c.mu.Unlock()
	for _, m := range draining {
		select {
		case <-m.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// replace makes next the current model, or no model if next is nil. The caller holds c.mu. replace adds the previous model to c.draining and
// returns it, for the caller to close. It returns nil if there was no previous model, or if next has the same model.
func (c *Current[W]) replace(next *serving[W]) (previousModel *Model) {
	previous := c.serving.Swap(next)
	if previous == nil || next != nil && next.model == previous.model {
		return nil
	}
	c.draining = append(c.draining, previous.model)
	c.dropReleased()
	return previous.model
}

// Acquire takes a lease of the current model, and returns the weights that Swap got with that model. Tensors in bound work until the
// lease is released, also after a Swap. Reads of tensors in bound do not end with ctx, and pin nothing in the cache. Only reads of
// tensors that [Lease.Of] returns end with ctx, and pin what they read. Acquire fails with ErrClosed if there is no current model, or
// if somebody has closed it. An ended ctx is an error of the calls through the lease, not of Acquire.
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
		} // else another model was made the current one meanwhile
	}
}

// CurrentStats says what a [Current] costs and has done.
type CurrentStats struct {
	// Tensors and Closed are figures of the current model: 0 and true if there is none. The rest are sums: sizes and leases over
	// the models whose memory is not released, counters over all models so far.
	Stats
	Draining int    `json:"draining"` // models, swapped out or closed in any way, whose memory is not released
	Swaps    uint64 `json:"swaps"`    // models that Swap made the current one
}

// Stats returns counters of the current model, of models that drain, and of models whose memory is released. CurrentStats says which
// fields are sums of them all.
func (c *Current[W]) Stats() CurrentStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropReleased()
	sum := CurrentStats{Stats: c.goneStats, Draining: len(c.draining), Swaps: c.swaps}
	for _, m := range c.draining {
		sum.add(m.Stats())
	}
	sum.Closed = true
	if s := c.serving.Load(); s != nil {
		stats := s.model.Stats()
		sum.add(stats)
		sum.Tensors, sum.Closed = stats.Tensors, stats.Closed
		if s.drains() {
			sum.Draining++
		}
	}
	return sum
}

// ResidentBytes returns how many bytes of the files of the current model, and of models that drain, are in physical memory: see
// [Model.ResidentBytes]. It fails with ErrUnsupported if the platform cannot tell.
func (c *Current[W]) ResidentBytes() (sum uint64, err error) {
	c.mu.Lock()
	models := slices.Clone(c.draining)
	if s := c.serving.Load(); s != nil {
		models = append(models, s.model)
	}
	c.mu.Unlock()
	for _, m := range models {
		n, err := m.ResidentBytes()
		if err != nil && !errors.Is(err, ErrClosed) { // the memory of a model that has just drained is gone
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// dropReleased removes from c.draining the models whose memory is released, and adds their counters to c.goneStats. The caller holds
// c.mu.
func (c *Current[W]) dropReleased() {
	draining := c.draining[:0]
	for _, m := range c.draining {
		if m.gone() {
			c.goneStats.add(m.Stats())
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
	s.WrongChunks += o.WrongChunks
	s.PrivateBytes += o.PrivateBytes
	s.FetchedBytes += o.FetchedBytes
	s.PresentBytes += o.PresentBytes
	s.ExpandedTime += o.ExpandedTime
	s.Hits += o.Hits
	s.Expansions += o.Expansions
	s.ExpandedBytes += o.ExpandedBytes
	s.Evictions += o.Evictions
}
