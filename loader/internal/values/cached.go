package values

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// Cached is values that may be in the model's cache. Current looks there unless the content is in place, and All puts them there.
type Cached struct {
	Uncached Values
	*content.Store
	Key cache.Key
}

// Current returns the values to read now. If the content is in memory, or the cache does not have the values, it returns c.Uncached.
// Otherwise Read of the result copies them from the cache. Current caches nothing.
func (c *Cached) Current() Values {
	if c.Uncached.Source().Cost().InPlace() { // expanding elements in memory again costs less than the cache's lock
		return c.Uncached
	}
	var noPins *cache.Pins
	if b, ok := c.Cache.Peek(c.Key, noPins); ok {
		return b.Made.(*inCache)
	}
	return c.Uncached
}

// inCache is values that were in the cache.
type inCache struct {
	Values
	all []float32
}

// Read copies the values from element first on to dst.
func (v *inCache) Read(_ context.Context, _ content.Env, dst []float32, first uint64) error {
	copy(dst, v.all[first:])
	return nil
}

// All returns all values from the cache, where env.Pins pins them. If the cache does not have them, All reads c.Uncached into the cache. It
// then calls c.DropSources, since the sources of the values need not stay in the cache. It also calls c.DropSources if the lease of env.Pins
// has warmed tensors. All returns the error of Err if there are no values. It returns content.ErrTooLarge for more bytes than c.Limit. It
// also fails if reading does.
func (c *Cached) All(ctx context.Context, env content.Env) ([]float32, error) {
	b, err := c.Cache.Get(ctx, c.Key, env.Pins, func(ctx context.Context, pins *cache.Pins) (b cache.Buffer, err error) {
		if err := c.Uncached.Err(); err != nil {
			return b, err
		}
		n := c.Uncached.Elements()
		if err := c.Limit.Allow(n, 4); err != nil {
			return b, err
		}
		b.Floats, err = mmapio.Gather(n, func() (bool, error) { return c.Uncached.Source().Probe(ctx) }, func(dst []float32, at uint64) error {
			return c.Uncached.Read(ctx, content.Env{Pins: pins}, dst, at)
		})
		if err == nil {
			b.Made = &inCache{c.Uncached, b.Floats} // here, so that Current allocates nothing
			c.DropSources(c.Key, env.Pins)
		}
		return b, err
	})
	if err == nil && !c.Uncached.Source().Cost().InPlace() && c.Cache.Pinned(env.Pins.ForWarming()) > 0 { // another caller may have filled the values
		c.DropSources(c.Key, env.Pins)
	}
	return b.Floats, err
}
