// Package cache keeps tensors that had to be copied or expanded.
package cache

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/tensormap/tensormap/internal/flight"
)

// Cache holds buffers up to a budget of bytes. The least recently used go first, never one that
// is pinned. However many goroutines ask for an entry, one fills it.
//
// Eviction only forgets: a slice that a caller still holds stays valid.
type Cache struct {
	opts  Options
	fills flight.Group[Key, Buffer]

	mu       sync.Mutex
	entries  map[Key]*entry
	byUse    list.List // of *entry, most recently used first
	counters Counters
}

// Options belong to the model whose cache it is.
type Options struct {
	Budget int64 // in bytes
	// CheckSource returns why the bytes read for an entry cannot be trusted, or nil.
	CheckSource func(Key) error
	// OnFilled hears of each entry that was filled, or could not be. It may be nil.
	OnFilled func(key Key, bytes uint64, took time.Duration, err error)
}

// Counters tell what the cache holds and has done.
type Counters struct {
	Used      int64         // bytes of the entries
	Hits      uint64        // requests for an entry that was there or being filled
	Fills     uint64        // entries filled
	Filled    uint64        // their bytes
	Took      time.Duration // to fill them
	Evictions uint64        // entries forgotten to keep the budget
}

// Key names an entry.
type Key struct {
	Tensor uint32 // position of the stored tensor: the codes, of a logical one
	Kind   Kind
}

// Kind is the form in which a tensor is cached.
type Kind uint8

const (
	Elements  Kind = iota // the elements, decompressed and aligned
	Float32               // the values of a stored tensor as float32
	Logical               // the values of a logical tensor, under the number of its codes, as float32
	Scales                // what the codes of a logical tensor need to become values
	Constants             // what its scales need
)

// Buffer is the memory of an entry, as its Kind says. Bytes and Floats are aligned to 64 bytes.
type Buffer struct {
	Bytes  []byte
	Floats []float32
	Ints   []int32
	Made   any // what package values has made of Floats; it has no memory of its own
}

// Size returns the bytes that the buffer takes.
func (b Buffer) Size() uint64 {
	return uint64(len(b.Bytes)) + 4*uint64(len(b.Floats)) + 4*uint64(len(b.Ints))
}

// Pins keeps entries in the cache until Unpin. The zero value pins nothing yet; a nil *Pins
// never does.
type Pins struct {
	entries map[*entry]struct{} // guarded by Cache.mu
	Warmed  *Pins               // of entries that only warming has asked for, or nil
}

// ForWarming returns p.Warmed, or nil if p is nil.
func (p *Pins) ForWarming() *Pins {
	if p == nil {
		return nil
	}
	return p.Warmed
}

type entry struct {
	key      Key
	buf      Buffer
	pinCount int
	element  *list.Element // in Cache.byUse
}

// Init makes the cache ready for use.
func (c *Cache) Init(opts Options) {
	c.opts = opts
	c.entries = make(map[Key]*entry)
}

// Get returns the buffer of key's entry and adds the entry to pins. If there is no entry, it makes one of what fill returns, or waits for
// another caller that is filling it: see [flight.Group]. fill pins the entries that it needs by the Pins that it gets, and Get unpins them
// when fill returns. Get fails if fill or Options.CheckSource does, or if ctx ends.
func (c *Cache) Get(ctx context.Context, key Key, pins *Pins, fill func(context.Context, *Pins) (Buffer, error)) (Buffer, error) {
	if b, ok := c.Peek(key, pins); ok {
		return b, nil
	}
	filledHere := false                                                        // by this call, rather than another caller's
	b, err := c.fills.Do(ctx, key, func(ctx context.Context) (Buffer, error) { // runs for one caller of several
		filledHere = true
		if b, ok := c.Peek(key, pins); ok { // another caller has filled it since the look above
			return b, nil
		}
		var own Pins
		defer c.Unpin(&own) // also after a panic of fill
		begun := time.Now()
		b, err := fill(ctx, &own)
		if err == nil {
			err = c.opts.CheckSource(key)
		}
		c.Unpin(&own) // before others are evicted for b
		took := time.Since(begun)
		if c.opts.OnFilled != nil {
			c.opts.OnFilled(key, b.Size(), took, err)
		}
		if err != nil {
			return Buffer{}, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counters.Fills++
		c.counters.Filled += b.Size()
		c.counters.Took += took
		c.insert(key, b, pins)
		return b, nil
	})
	if err != nil || filledHere {
		return b, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counters.Hits++
	if e, ok := c.entries[key]; ok {
		return c.use(e, pins), nil
	}
	if pins != nil { // another caller's entry was evicted before this caller could pin it
		c.insert(key, b, pins)
	}
	return b, nil
}

// Peek returns the buffer of key's entry, adds the entry to pins and marks it as the most recently used. It reports false
// if there is no such entry. It fills nothing and waits for no caller that does.
func (c *Cache) Peek(key Key, pins *Pins) (Buffer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return Buffer{}, false
	}
	c.counters.Hits++
	return c.use(e, pins), true
}

// use marks e as the most recently used entry, adds it to pins and returns its buffer. The caller holds mu.
func (c *Cache) use(e *entry, pins *Pins) Buffer {
	c.byUse.MoveToFront(e.element)
	c.pin(e, pins)
	return e.buf
}

// insert makes b the entry of key, which must have none, and adds it to pins. It then evicts others until the budget is met. If pins is
// nil and b alone exceeds the budget, it evicts b and no other: nothing but the count of evictions changes. The caller holds mu.
func (c *Cache) insert(key Key, b Buffer, pins *Pins) {
	e := &entry{key: key, buf: b}
	e.element = c.byUse.PushFront(e)
	c.entries[key] = e
	c.counters.Used += int64(b.Size())
	c.pin(e, pins)
	if pins == nil && int64(b.Size()) > c.opts.Budget {
		c.forget(e) // otherwise evict would forget all others first
	}
	c.evict()
}

// evict forgets entries, the least recently used first, until the budget is met or only pinned ones are left. The
// caller holds mu.
func (c *Cache) evict() {
	for at := c.byUse.Back(); at != nil && c.counters.Used > c.opts.Budget; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.pinCount > 0 {
			continue
		}
		c.forget(e)
	}
}

// forget removes e from the cache, and counts it as evicted. The caller holds mu.
func (c *Cache) forget(e *entry) {
	c.byUse.Remove(e.element)
	delete(c.entries, e.key)
	c.counters.Used -= int64(e.buf.Size())
	c.counters.Evictions++
}

// Drop takes the tensor's entries of the given kinds out of pins, which may be nil. It then forgets each of these entries that has no pin.
func (c *Cache) Drop(pins *Pins, tensor uint32, kinds ...Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range kinds {
		e, ok := c.entries[Key{tensor, kind}]
		if !ok {
			continue
		}
		if pins != nil {
			if _, ok := pins.entries[e]; ok {
				delete(pins.entries, e)
				e.pinCount--
			}
		}
		if e.pinCount == 0 {
			c.forget(e)
		}
	}
}

// pin adds e to pins and counts one more pin of it. It does nothing for nil pins, or if pins has e already. The caller
// holds mu.
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
	e.pinCount++
}

// Unpin unpins all entries of pins, and then evicts entries until the budget is met.
func (c *Cache) Unpin(pins *Pins) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range pins.entries {
		e.pinCount--
	}
	pins.entries = nil
	c.evict()
}

// Pinned returns the number of entries that pins has, which is 0 if pins is nil.
func (c *Cache) Pinned(pins *Pins) int {
	if pins == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(pins.entries)
}

// Clear removes all entries, pinned or not, and counts no evictions. The caller makes sure that no Get is running or follows.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.byUse.Init()
	c.counters.Used = 0
}

// Counters returns the counts of entries, bytes and requests so far.
func (c *Cache) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counters
}
