package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// cacheOf makes a cache and the keys of n tensors.
func cacheOf(budget int64, n int) (*Cache, []Key) {
	c := &Cache{}
	c.Init(Options{Budget: budget, CheckSource: func(Key) error { return nil }})
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Tensor: uint32(i)}
	}
	return c, keys
}

func fillBytes(n int) func(context.Context, *Pins) (Buffer, error) {
	return func(context.Context, *Pins) (Buffer, error) { return Buffer{Bytes: make([]byte, n)}, nil }
}

// holds lists which keys the cache has.
func (c *Cache) holds(keys []Key) (held []int) {
	for i, k := range keys {
		if _, ok := c.entries[k]; ok {
			held = append(held, i)
		}
	}
	return held
}

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	tests := []struct {
		name string
		gets []int // of 10 bytes each
		want []int // with a budget of 30
	}{
		{"all fit", []int{0, 1, 2}, []int{0, 1, 2}},
		{"oldest goes", []int{0, 1, 2, 3}, []int{1, 2, 3}},
		{"use keeps", []int{0, 1, 2, 0, 3}, []int{0, 2, 3}},
		{"in turn", []int{0, 1, 2, 3, 4, 5}, []int{3, 4, 5}},
		{"come again", []int{0, 1, 2, 3, 0, 4}, []int{0, 3, 4}},
	}
	for _, tt := range tests {
		c, keys := cacheOf(30, 6)
		for _, i := range tt.gets {
			if b, err := c.Get(context.Background(), keys[i], nil, fillBytes(10)); err != nil || len(b.Bytes) != 10 {
				t.Fatal(b, err)
			}
		}
		if got := c.holds(keys); !slices.Equal(got, tt.want) {
			t.Errorf("%s: holds %v, want %v", tt.name, got, tt.want)
		}
		if want := int64(10 * len(tt.want)); c.counters.Used != want || c.byUse.Len() != len(tt.want) {
			t.Errorf("%s: %d bytes used, want %d", tt.name, c.counters.Used, want)
		}
	}
}

func TestCacheEvictsUntilItFits(t *testing.T) {
	c, keys := cacheOf(30, 4)
	for i, n := range []int{10, 10, 10, 25} {
		c.Get(context.Background(), keys[i], nil, fillBytes(n))
	}
	if got := c.holds(keys); !slices.Equal(got, []int{3}) || c.counters.Used != 25 || c.counters.Evictions != 3 {
		t.Errorf("holds %v, %d bytes, %d evictions", got, c.counters.Used, c.counters.Evictions)
	}
}

// TestCacheOfTooLargeEntry: what does not fit alone drives nothing else out.
func TestCacheOfTooLargeEntry(t *testing.T) {
	c, keys := cacheOf(30, 4)
	l := &Pins{}
	for i, n := range []int{10, 10, 31} {
		c.Get(context.Background(), keys[i], nil, fillBytes(n))
	}
	if got := c.holds(keys); !slices.Equal(got, []int{0, 1}) || c.counters.Used != 20 || c.counters.Evictions != 1 {
		t.Errorf("holds %v, %d bytes, %d evictions", got, c.counters.Used, c.counters.Evictions)
	}
	c.Get(context.Background(), keys[2], l, fillBytes(31)) // pinned, it uses up the budget
	if got := c.holds(keys); !slices.Equal(got, []int{2}) || c.counters.Used != 31 {
		t.Errorf("holds %v, %d bytes", got, c.counters.Used)
	}
}

func TestCacheWithoutBudgetKeepsNothing(t *testing.T) {
	c, keys := cacheOf(0, 1)
	for range 3 {
		if b, err := c.Get(context.Background(), keys[0], nil, fillBytes(10)); err != nil || len(b.Bytes) != 10 {
			t.Error(b, err)
		}
	}
	if len(c.entries) != 0 || c.counters.Used != 0 || c.counters.Fills != 3 || c.counters.Hits != 0 || c.counters.Evictions != 3 {
		t.Errorf("%+v", c.Counters())
	}
}

func TestCachePins(t *testing.T) {
	c, keys := cacheOf(20, 5)
	first, second := &Pins{}, &Pins{}
	get := func(i int, l *Pins) {
		if _, err := c.Get(context.Background(), keys[i], l, fillBytes(10)); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		what string
		do   func()
		want []int
	}{
		{"pinned entries stay beyond the budget", func() { get(0, first); get(1, first); get(2, first) }, []int{0, 1, 2}},
		{"others do not", func() { get(3, nil) }, []int{0, 1, 2}},
		{"twice by one lease counts once", func() { get(0, first); get(0, first) }, []int{0, 1, 2}},
		{"a second lease pins too", func() { get(1, second) }, []int{0, 1, 2}},
		{"a release makes room", func() { c.Unpin(first) }, []int{0, 1}}, // 2 is the least recently used
		{"again", func() { c.Unpin(first) }, []int{0, 1}},
		{"the second lease keeps its own", func() { get(3, nil); get(4, nil) }, []int{1, 4}},
		{"until it goes", func() { c.Unpin(second); get(3, nil) }, []int{3, 4}},
	}
	for _, s := range steps {
		s.do()
		if got := c.holds(keys); !slices.Equal(got, s.want) {
			t.Errorf("%s: holds %v, want %v", s.what, got, s.want)
		}
	}
	for i, k := range keys {
		if e := c.entries[k]; e != nil && e.pinCount != 0 {
			t.Errorf("entry %d still has %d pins", i, e.pinCount)
		}
	}
}

// together has one goroutine fill an entry, and waiters more ask for it meanwhile, whose fill is again. It counts
// the waiters that have what want accepts.
func together(t *testing.T, c *Cache, key Key, waiters int, fill, again func(context.Context, *Pins) (Buffer, error), want func(Buffer, error) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		filling := make(chan struct{})
		go func() {
			defer func() { recover() }() // fill may panic
			c.Get(t.Context(), key, nil, func(ctx context.Context, pins *Pins) (Buffer, error) { <-filling; return fill(ctx, pins) })
		}()
		synctest.Wait()
		var wanted atomic.Int32
		for range waiters {
			go func() {
				if want(c.Get(t.Context(), key, nil, again)) {
					wanted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(filling)
		synctest.Wait()
		if n := int(wanted.Load()); n != waiters {
			t.Errorf("%d of %d callers that waited have what they should", n, waiters)
		}
	})
}

func twice(context.Context, *Pins) (Buffer, error) { panic("filled twice") }

func TestCacheFillsOnce(t *testing.T) {
	c, keys := cacheOf(100, 1)
	want := make([]byte, 10)
	together(t, c, keys[0], 50, func(context.Context, *Pins) (Buffer, error) { return Buffer{Bytes: want}, nil }, twice, func(b Buffer, err error) bool {
		return err == nil && &b.Bytes[0] == &want[0]
	})
	if c.counters.Fills != 1 || c.counters.Hits != 50 || c.counters.Filled != 10 {
		t.Errorf("%+v", c.Counters())
	}
}

func TestCacheFailureReachesWaiters(t *testing.T) {
	c, keys := cacheOf(100, 1)
	sorry := errors.New("sorry")
	together(t, c, keys[0], 20, func(context.Context, *Pins) (Buffer, error) { return Buffer{Bytes: make([]byte, 5)}, sorry }, twice, func(b Buffer, err error) bool {
		return err == sorry && b.Bytes == nil
	})
	if len(c.entries) != 0 || c.counters != (Counters{}) {
		t.Errorf("%+v", c.Counters())
	}
}

// TestCachePanicOfOne: a caller that waits for a fill that panics fills itself, and the others have its buffer.
func TestCachePanicOfOne(t *testing.T) {
	c, keys := cacheOf(100, 1)
	together(t, c, keys[0], 20, func(context.Context, *Pins) (Buffer, error) { panic("sorry") }, fillBytes(10), func(b Buffer, err error) bool {
		return err == nil && len(b.Bytes) == 10
	})
	if c.counters.Fills != 1 || c.counters.Hits != 19 || c.counters.Used != 10 {
		t.Errorf("%+v", c.Counters())
	}
}

// TestCachePinsWhatWasForgotten has callers wait for an entry that the budget does not let the filling caller keep. Each
// pins the same buffer.
func TestCachePinsWhatWasForgotten(t *testing.T) {
	c, keys := cacheOf(0, 1)
	var pins [3]Pins
	synctest.Test(t, func(t *testing.T) {
		filling := make(chan struct{})
		go c.Get(t.Context(), keys[0], nil, func(context.Context, *Pins) (Buffer, error) { <-filling; return Buffer{Bytes: make([]byte, 10)}, nil })
		synctest.Wait()
		for i := range pins {
			go c.Get(t.Context(), keys[0], &pins[i], twice)
		}
		synctest.Wait()
		close(filling)
		synctest.Wait()
	})
	if e := c.entries[keys[0]]; e == nil || e.pinCount != 3 || c.counters.Used != 10 || c.counters.Fills != 1 {
		t.Errorf("%+v", c.Counters())
	}
	for i := range pins {
		c.Unpin(&pins[i])
	}
	if c.counters.Used != 0 {
		t.Errorf("%+v", c.Counters())
	}
}

func TestCacheFailureIsNotKept(t *testing.T) {
	c, keys := cacheOf(100, 1)
	sorry := errors.New("sorry")
	l := &Pins{}
	for range 3 {
		if b, err := c.Get(context.Background(), keys[0], l, func(context.Context, *Pins) (Buffer, error) { return Buffer{Bytes: make([]byte, 5)}, sorry }); err != sorry || b.Bytes != nil {
			t.Errorf("%v, %v", b, err)
		}
	}
	if s := c.Counters(); len(c.entries) != 0 || s != (Counters{}) {
		t.Errorf("a failure is kept: %+v", s)
	}
	if b, err := c.Get(context.Background(), keys[0], l, fillBytes(10)); err != nil || len(b.Bytes) != 10 {
		t.Errorf("after failures: %v", err)
	}
	c.Unpin(l)
	if c.counters.Used != 10 || c.entries[keys[0]].pinCount != 0 {
		t.Errorf("%d bytes, %d pins", c.counters.Used, c.entries[keys[0]].pinCount)
	}
}

func TestCacheFormsAreApart(t *testing.T) {
	c, keys := cacheOf(100, 1)
	floats := Key{keys[0].Tensor, Float32}
	c.Get(context.Background(), keys[0], nil, fillBytes(10))
	b, err := c.Get(context.Background(), floats, nil, func(context.Context, *Pins) (Buffer, error) { return Buffer{Floats: make([]float32, 5)}, nil })
	if err != nil || len(b.Floats) != 5 || c.counters.Used != 30 || c.counters.Fills != 2 {
		t.Errorf("%v, %+v", err, c.Counters())
	}
}

func TestCacheClear(t *testing.T) {
	c, keys := cacheOf(100, 3)
	for _, k := range keys {
		c.Get(context.Background(), k, nil, fillBytes(10))
	}
	c.Clear()
	if len(c.entries) != 0 || c.counters.Used != 0 || c.byUse.Len() != 0 {
		t.Errorf("%+v", c.Counters())
	}
}

// TestCacheUnderLoad keeps its books right.
func TestCacheUnderLoad(t *testing.T) {
	c, keys := cacheOf(50, 20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			l := &Pins{}
			for i := range 500 {
				n := (i*7 + g*3) % len(keys)
				b, err := c.Get(context.Background(), keys[n], l, fillBytes(n))
				if err != nil || len(b.Bytes) != n {
					t.Errorf("%d bytes for %d, %v", len(b.Bytes), n, err)
				}
				if i%10 == 9 {
					c.Unpin(l)
				}
			}
			c.Unpin(l)
		})
	}
	wg.Wait()
	used := int64(0)
	for _, e := range c.entries {
		used += int64(e.buf.Size())
		if e.pinCount != 0 {
			t.Errorf("%d pins left", e.pinCount)
		}
	}
	if used != c.counters.Used || used > c.opts.Budget || c.byUse.Len() != len(c.entries) || c.counters.Hits+c.counters.Fills != 8*500 {
		t.Errorf("%d bytes used, %d counted, %+v", used, c.counters.Used, c.Counters())
	}
}
