package loader

import (
	"container/list"
	"errors"
	"sync"

	"github.com/tensormap/tensormap/layout"
)

// cache holds tensors that had to be copied or expanded, up to a budget of bytes. The
// least recently used go first, never one that a lease has pinned or that is being
// filled. However many goroutines ask for an entry, one fills it.
//
// Eviction only forgets: a slice that a caller still holds stays valid.
type cache struct {
	mu      sync.Mutex
	budget  int64
	used    int64
	entries map[cacheKey]*entry
	recent  list.List // of *entry, most recently used first; only filled ones

	// intact says why what was read for a tensor cannot be trusted.
	intact func(*layout.Tensor) error

	hits, fills, evictions, filled uint64
}

type cacheKey struct {
	tensor *layout.Tensor
	kind   cacheKind
}

// cacheKind is the form in which a tensor is kept.
type cacheKind uint8

const (
	kindElements cacheKind = iota // the elements, decompressed and aligned
	kindFloat32                   // the values as float32
)

type entry struct {
	key  cacheKey
	done chan struct{} // closed once buf or err is there
	buf  buffer
	err  error
	pins int
	at   *list.Element // nil while it is not in recent
}

// buffer is memory of an entry, aligned to 64 bytes: one of the two, as its kind says.
type buffer struct {
	bytes  []byte
	floats []float32
}

func (b buffer) size() int64 { return int64(len(b.bytes)) + 4*int64(len(b.floats)) }

func (c *cache) init(budget int64, intact func(*layout.Tensor) error) {
	c.budget, c.intact = budget, intact
	c.entries = make(map[cacheKey]*entry)
}

// get answers with the entry's buffer, which expand makes where it is not there. A lease, if
// any, pins it.
func (c *cache) get(key cacheKey, l *Lease, expand func() (buffer, error)) (buffer, error) {
	c.mu.Lock()
	e, ok := c.entries[key]
	if !ok {
		e = &entry{key: key, done: make(chan struct{})}
		c.entries[key] = e
	} else {
		c.hits++
		if e.at != nil {
			c.recent.MoveToFront(e.at)
		}
	}
	c.pin(e, l)
	c.mu.Unlock()
	if !ok {
		c.fill(e, expand)
	}
	<-e.done
	if e.err != nil {
		c.letGo(e, l)
	}
	return e.buf, e.err
}

// peek answers with the entry's buffer if it is there, and makes none.
func (c *cache) peek(key cacheKey) (buffer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || e.at == nil {
		return buffer{}, false
	}
	c.hits++
	c.recent.MoveToFront(e.at)
	return e.buf, true
}

var errFillPanicked = errors.New("another goroutine panicked while expanding the tensor")

// fill makes e's buffer and lets everybody who waits for it go on, whatever happens.
func (c *cache) fill(e *entry, expand func() (buffer, error)) {
	e.err = errFillPanicked // unless expand returns
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(e.done)
		if e.err != nil {
			e.buf = buffer{}
			delete(c.entries, e.key)
			return
		}
		c.fills++
		c.filled += uint64(e.buf.size())
		c.used += e.buf.size()
		e.at = c.recent.PushFront(e)
		if e.pins == 0 && e.buf.size() > c.budget {
			c.forget(e) // rather than all others, and then it too
		}
		c.evict()
	}()
	buf, err := expand()
	if err == nil {
		err = c.intact(e.key.tensor)
	}
	e.buf, e.err = buf, err
}

// evict forgets entries until the budget is kept or only pinned ones are left.
func (c *cache) evict() {
	for at := c.recent.Back(); at != nil && c.used > c.budget; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.pins > 0 {
			continue
		}
		c.forget(e)
	}
}

func (c *cache) forget(e *entry) {
	c.recent.Remove(e.at)
	delete(c.entries, e.key)
	c.used -= e.buf.size()
	c.evictions++
}

// drop forgets what no lease has pinned of a tensor.
func (c *cache) drop(t *layout.Tensor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []cacheKind{kindElements, kindFloat32} {
		if e, ok := c.entries[cacheKey{t, kind}]; ok && e.at != nil && e.pins == 0 {
			c.forget(e)
		}
	}
}

func (c *cache) pin(e *entry, l *Lease) {
	if l == nil {
		return
	}
	if _, ok := l.pins[e]; ok {
		return
	}
	if l.pins == nil {
		l.pins = make(map[*entry]struct{})
	}
	l.pins[e] = struct{}{}
	e.pins++
}

// letGo is for an entry that could not be filled: a lease that tries again and again must
// not gather what failed.
func (c *cache) letGo(e *entry, l *Lease) {
	if l == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(l.pins, e)
}

// unpin lets go of everything that l has pinned.
func (c *cache) unpin(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range l.pins {
		e.pins--
	}
	l.pins = nil
	c.evict()
}

// clear forgets everything. Nobody is filling an entry any more.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.recent.Init()
	c.used = 0
}
