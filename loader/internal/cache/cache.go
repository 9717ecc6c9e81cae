// Package cache keeps tensors that had to be copied or expanded.
package cache

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// Cache holds buffers up to a budget of bytes. The least recently used go first, never one that
// is pinned or being filled. However many goroutines ask for an entry, one fills it.
//
// Eviction only forgets: a slice that a caller still holds stays valid.
type Cache struct {
	opts Options

	mu      sync.Mutex
	entries map[Key]*entry
	recent  list.List // of *entry, most recently used first; only filled ones
	count   Counters
}

// Options belong to the model whose cache it is.
type Options struct {
	Budget int64 // in bytes
	// Intact returns why the bytes read for a tensor cannot be trusted, or nil.
	Intact func(*layout.Tensor) error
	// Enter holds the model open for a fill that may outlast its caller, and Leave ends that.
	Enter, Leave func()
	// Panicked hears the value that a fill has panicked with, if the caller that began it has left.
	Panicked func(*layout.Tensor, any)
}

// Counters tell what the cache holds and has done.
type Counters struct {
	Used      int64  // bytes held
	Hits      uint64 // requests for an entry that was there or being filled
	Fills     uint64 // entries filled
	Filled    uint64 // their bytes
	Evictions uint64 // entries forgotten to keep the budget
}

// Key names an entry.
type Key struct {
	Tensor *layout.Tensor
	Kind   Kind
}

// Kind is the form in which a tensor is kept.
type Kind uint8

const (
	Elements  Kind = iota // the elements, decompressed and aligned
	Float32               // the values of a stored tensor as float32
	Logical               // the values of a logical tensor, under that of its codes, as float32
	Scales                // what the codes of a logical tensor need to become values
	Constants             // what its scales need
)

// Buffer is the memory of an entry, as its Kind says. Bytes and Floats are aligned to 64 bytes.
type Buffer struct {
	Bytes  []byte
	Floats []float32
	Ints   []int32
}

// Size returns the bytes that the buffer takes.
func (b Buffer) Size() uint64 {
	return uint64(len(b.Bytes)) + 4*uint64(len(b.Floats)) + 4*uint64(len(b.Ints))
}

// Pins keeps entries in the cache until Unpin. The zero value pins nothing yet; a nil *Pins
// never does.
type Pins struct {
	entries map[*entry]struct{} // guarded by Cache.mu
}

type entry struct {
	key    Key
	done   chan struct{} // closed once buf or err is there
	buf    Buffer
	err    error
	pins   int
	at     *list.Element // nil while it is not in recent
	asking int           // callers that wait for done
	cancel func()        // ends a fill that nobody waits for, or nil
}

// Init makes the cache ready for use.
func (c *Cache) Init(opts Options) {
	c.opts = opts
	c.entries = make(map[Key]*entry)
}

// Get returns the entry's buffer and pins it. An absent entry is filled by fill, whose context
// ends once every caller that waits for it has left. A caller leaves when ctx ends.
func (c *Cache) Get(ctx context.Context, key Key, pins *Pins, fill func(context.Context) (Buffer, error)) (Buffer, error) {
	var filler parallel.Group
	c.mu.Lock()
	e, ok := c.entries[key]
	if ok {
		c.use(e)
	} else {
		e = &entry{key: key, done: make(chan struct{})}
		c.entries[key] = e
	}
	c.pin(e, pins)
	e.asking++
	switch {
	case ok:
		c.mu.Unlock()
	case ctx.Done() == nil:
		c.mu.Unlock()
		c.fill(ctx, e, fill)
	default:
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e.cancel = cancel
		c.mu.Unlock()
		c.opts.Enter()
		filler.Go(func() error {
			defer c.opts.Leave()
			defer cancel()
			c.fill(ctx, e, fill)
			return nil
		})
	}
	select {
	case <-e.done:
		filler.Wait()     // panics if the fill has
		if e.err != nil { // a lease that tries again and again must not gather what failed
			c.leave(e, pins)
		}
		return e.buf, e.err
	case <-ctx.Done():
		c.leave(e, pins)
		if !ok {
			go c.outlive(e, &filler)
		}
		return Buffer{}, context.Cause(ctx)
	}
}

// outlive waits for the fill of e in place of the caller that began it. A panic of the fill has no
// goroutine to go on in.
func (c *Cache) outlive(e *entry, filler *parallel.Group) {
	defer func() {
		if v := recover(); v != nil {
			c.opts.Panicked(e.key.Tensor, v)
		}
	}()
	filler.Wait()
}

// Peek returns the entry's buffer and pins it, if it is there.
func (c *Cache) Peek(key Key, pins *Pins) (Buffer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || e.at == nil {
		return Buffer{}, false
	}
	c.use(e)
	c.pin(e, pins)
	return e.buf, true
}

// use counts a hit.
func (c *Cache) use(e *entry) {
	c.count.Hits++
	if e.at != nil {
		c.recent.MoveToFront(e.at)
	}
}

var errFillPanicked = errors.New("another goroutine panicked while expanding the tensor")

// fill makes e's buffer and lets everybody who waits for it go on, whatever happens.
func (c *Cache) fill(ctx context.Context, e *entry, fill func(context.Context) (Buffer, error)) {
	e.err = errFillPanicked // unless fill returns
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(e.done)
		switch {
		case c.entries[e.key] != e: // nobody waits for it any more
		case e.err != nil:
			e.buf = Buffer{}
			delete(c.entries, e.key)
		default:
			c.keep(e)
		}
	}()
	buf, err := fill(ctx)
	if err == nil {
		err = c.opts.Intact(e.key.Tensor)
	}
	e.buf, e.err = buf, err
}

func (c *Cache) keep(e *entry) {
	c.count.Fills++
	c.count.Filled += e.buf.Size()
	c.count.Used += int64(e.buf.Size())
	e.at = c.recent.PushFront(e)
	if e.pins == 0 && int64(e.buf.Size()) > c.opts.Budget {
		c.forget(e) // rather than all others, and then it too
	}
	c.evict()
}

// leave stops waiting for e. The last one to leave ends the fill.
func (c *Cache) leave(e *entry, pins *Pins) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pins != nil {
		if _, ok := pins.entries[e]; ok {
			delete(pins.entries, e)
			e.pins--
		}
	}
	e.asking--
	if e.asking == 0 && e.cancel != nil && e.at == nil && c.entries[e.key] == e {
		delete(c.entries, e.key) // for others to begin anew
		e.cancel()
	}
}

// evict forgets entries until the budget is kept or only pinned ones are left.
func (c *Cache) evict() {
	for at := c.recent.Back(); at != nil && c.count.Used > c.opts.Budget; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.pins > 0 {
			continue
		}
		c.forget(e)
	}
}

func (c *Cache) forget(e *entry) {
	c.recent.Remove(e.at)
	delete(c.entries, e.key)
	c.count.Used -= int64(e.buf.Size())
	c.count.Evictions++
}

// Drop forgets a tensor in these forms, unless they are pinned.
func (c *Cache) Drop(t *layout.Tensor, kinds ...Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range kinds {
		if e, ok := c.entries[Key{t, kind}]; ok && e.at != nil && e.pins == 0 {
			c.forget(e)
		}
	}
}

func (c *Cache) pin(e *entry, pins *Pins) {
	if pins == nil {
		return
	}
	if _, ok := pins.entries[e]; ok {
		return
	}
	if pins.entries == nil {
		pins.entries = make(map[*entry]struct{})
	}
	pins.entries[e] = struct{}{}
	e.pins++
}

// Unpin lets go of everything that pins holds.
func (c *Cache) Unpin(pins *Pins) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range pins.entries {
		e.pins--
	}
	pins.entries = nil
	c.evict()
}

// Forget unpins the entry that pins holds under key, and forgets it unless others have pinned it.
func (c *Cache) Forget(key Key, pins *Pins) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if _, ok := pins.entries[e]; !ok {
		return
	}
	delete(pins.entries, e)
	if e.pins--; e.pins == 0 && e.at != nil {
		c.forget(e)
	}
}

// Pinned returns the number of entries that pins holds.
func (c *Cache) Pinned(pins *Pins) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(pins.entries)
}

// Clear forgets everything. Nobody is filling an entry any more.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.recent.Init()
	c.count.Used = 0
}

// Counters returns what the cache holds and has done.
func (c *Cache) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
