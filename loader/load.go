package loader

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// load is a tensor of a model that is not mapped on its way into the cache. Its bytes may
// come by several readers.
type load struct {
	tensor Tensor
	had    *atomic.Uint64 // counts bytes that the cache has already

	begin  sync.Once
	stored *mmapio.Gathering[byte] // nil if the cache has the tensor
	err    error                   // why there is no memory
}

// Room returns memory for stored bytes, unless the cache has the tensor.
func (l *load) Room(at, n uint64) ([]byte, error) {
	l.begin.Do(func() {
		t := l.tensor
		c := &t.file.model.cache
		if _, ok := c.Peek(t.valuesKey(), t.pins()); ok {
			return
		}
		if _, ok := c.Peek(cache.Key{Tensor: t.desc, Kind: cache.Elements}, t.warmPins()); ok {
			return
		}
		l.stored, l.err = mmapio.NewGathering[byte](t.desc.Stored, func() (bool, error) {
			if t.file.access() == fromAfar {
				return false, nil // a request less: what comes now will tell
			}
			return t.file.content.Probe(t.desc.Offset, t.desc.Stored)
		})
	})
	switch {
	case l.err != nil:
		return nil, l.tensor.wrap(l.err)
	case l.stored == nil:
		l.had.Add(n)
		return nil, nil
	}
	return l.stored.Room(at, n), nil
}

// Arrived hands the tensor over to the cache if this was the last of it. If another call fills the
// cache's entry, Arrived waits for that until ctx ends.
func (l *load) Arrived(ctx context.Context, at uint64, room []byte) error {
	all, err := l.stored.Arrived(at, room)
	if err == nil && all {
		stored := l.stored.Whole()
		l.stored = nil
		_, err = l.tensor.keptBy(ctx, l.tensor.warmPins(), cache.Elements, func(t Tensor) (cache.Buffer, error) { return t.elementsOf(stored) })
	}
	if err != nil {
		return l.tensor.wrap(err)
	}
	return nil
}
