package content

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// Cached is a Content whose bytes may be in the model's cache. View looks in the cache, and puts the bytes there only if a part of the Content
// costs as much as the whole. All puts them there in any case. ReadAt is the method of Content, and does not use the cache.
type Cached struct {
	Content
	*Store
	Key cache.Key
}

// Store is where the copies of all tensors of a model go.
type Store struct {
	Cache *cache.Cache
	Limit Limit // of each
	// DropSources is called when values are about to be put into the cache, where pins will pin them. It may drop from the cache what the
	// values were made of.
	DropSources func(values cache.Key, pins *cache.Pins)
}

// View returns the n bytes at off, which lie within Size, without copying them. It returns the view of Content if that has one, else a
// part of the cached copy. If neither exists, and Content can only be read as a whole, View puts a copy into the cache and returns a part
// of that. For any other Content it returns nil without an error, and the caller uses ReadAt. It fails if reading does.
func (c *Cached) View(ctx context.Context, env Env, off, n uint64) ([]byte, error) {
	b, err := c.Content.View(ctx, env, off, n)
	if b != nil || err != nil {
		return b, err
	}
	if c.Cost().OnlyWhole {
		if b, err = c.All(ctx, env, c.Content); err != nil {
			return nil, err
		}
	} else if buf, ok := c.Cache.Peek(c.Key, nil); ok { // nil: it pins nothing
		b = buf.Bytes
	} else {
		return nil, nil
	}
	return b[off:][:n:n], nil
}

// All returns an aligned copy of all bytes of c from the cache, where env.Pins pins it. If the cache has no copy, All makes one of the content
// that the argument from is: c.Content, or another content with the same bytes. All unpacks a Packed, and reads any other Content. It fails
// if reading or unpacking does, or with ErrTooLarge for more than c.Limit bytes to read or unpack.
func (c *Cached) All(ctx context.Context, env Env, from Content) ([]byte, error) {
	buf, err := c.Cache.Get(ctx, c.Key, env.Pins, func(ctx context.Context, pins *cache.Pins) (b cache.Buffer, err error) {
		if packed, ok := from.(*Packed); ok {
			b.Bytes, err = packed.unpackAll(ctx, c.Limit)
		} else if err = c.Limit.Allow(from.Size(), 1); err == nil { // copied, even if from has a view: that may not be aligned
			b.Bytes, err = mmapio.Gather(toGather(ctx, Env{pins}, from))
		}
		return b, err
	})
	return buf.Bytes, err
}
