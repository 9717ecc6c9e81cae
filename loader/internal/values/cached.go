package values

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// Cached is values that may be in the model's cache. Read looks there unless the content is in place, and All puts them there.
type Cached struct {
	Values
	*content.Store
	Key cache.Key
}

// Read fills dst with the values from element first on. If the content is in memory, or the cache does not have the values, it reads
// Values and caches nothing. Otherwise it copies them from the cache. It fails if reading does.
func (c *Cached) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	if !c.Source().Cost().InPlace() { // what is in place is expanded again, without the cache's lock
		if b, ok := c.Cache.Peek(c.Key, nil); ok { // nil: it pins nothing
			copy(dst, b.Floats[first:])
			return nil
		}
	}
	return c.Values.Read(ctx, env, dst, first)
}

// All returns all values from the cache, where env.Pins pins them. If they are not there, it reads them from Values into the cache, and
// calls c.DropSources, since the cache no longer needs their codes. It calls that also if env.Pins has warmed any. It returns the error of
// Err if there are no values. It returns content.ErrTooLarge for more bytes than c.Limit. It also fails if reading does.
func (c *Cached) All(ctx context.Context, env content.Env) ([]float32, error) {
	b, err := c.Cache.Get(ctx, c.Key, env.Pins, func(ctx context.Context, pins *cache.Pins) (b cache.Buffer, err error) {
		if err := c.Err(); err != nil {
			return b, err
		}
		n := c.Elements()
		if err := c.Limit.Allow(n, 4); err != nil {
			return b, err
		}
		b.Floats, err = mmapio.Gather(n, func() (bool, error) { return c.Source().Probe(ctx) }, func(dst []float32, at uint64) error {
			return c.Values.Read(ctx, content.Env{Pins: pins}, dst, at)
		})
		if err == nil {
			c.DropSources(c.Key, env.Pins)
		}
		return b, err
	})
	if err == nil && !c.Source().Cost().InPlace() && c.Cache.Pinned(env.Pins.ForWarming()) > 0 { // another caller may have filled the values
		c.DropSources(c.Key, env.Pins)
	}
	return b.Floats, err
}
