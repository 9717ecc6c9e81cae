package loader

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// cacheOf makes a cache and the keys of n tensors.
func cacheOf(budget int64, n int) (*cache, []cacheKey) {
	c := &cache{}
	c.init(budget, func(*layout.Tensor) error { return nil })
	keys := make([]cacheKey, n)
	for i := range keys {
		keys[i] = cacheKey{tensor: &layout.Tensor{}}
	}
	return c, keys
}

func fillBytes(n int) func() (buffer, error) {
	return func() (buffer, error) { return buffer{bytes: make([]byte, n)}, nil }
}

// holds lists which keys the cache has.
func (c *cache) holds(keys []cacheKey) (held []int) {
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
			if b, err := c.get(keys[i], nil, fillBytes(10)); err != nil || len(b.bytes) != 10 {
				t.Fatal(b, err)
			}
		}
		if got := c.holds(keys); !slices.Equal(got, tt.want) {
			t.Errorf("%s: holds %v, want %v", tt.name, got, tt.want)
		}
		if want := int64(10 * len(tt.want)); c.used != want || c.recent.Len() != len(tt.want) {
			t.Errorf("%s: %d bytes used, want %d", tt.name, c.used, want)
		}
	}
}

func TestCacheEvictsUntilItFits(t *testing.T) {
	c, keys := cacheOf(30, 4)
	for i, n := range []int{10, 10, 10, 25} {
		c.get(keys[i], nil, fillBytes(n))
	}
	if got := c.holds(keys); !slices.Equal(got, []int{3}) || c.used != 25 || c.evictions != 3 {
		t.Errorf("holds %v, %d bytes, %d evictions", got, c.used, c.evictions)
	}
}

// TestCacheOfTooLargeEntry: what does not fit alone drives nothing else out.
func TestCacheOfTooLargeEntry(t *testing.T) {
	c, keys := cacheOf(30, 4)
	l := &Lease{}
	for i, n := range []int{10, 10, 31} {
		c.get(keys[i], nil, fillBytes(n))
	}
	if got := c.holds(keys); !slices.Equal(got, []int{0, 1}) || c.used != 20 || c.evictions != 1 {
		t.Errorf("holds %v, %d bytes, %d evictions", got, c.used, c.evictions)
	}
	c.get(keys[2], l, fillBytes(31)) // pinned, it uses up the budget
	if got := c.holds(keys); !slices.Equal(got, []int{2}) || c.used != 31 {
		t.Errorf("holds %v, %d bytes", got, c.used)
	}
}

func TestCacheWithoutBudgetKeepsNothing(t *testing.T) {
	c, keys := cacheOf(0, 1)
	for range 3 {
		if b, err := c.get(keys[0], nil, fillBytes(10)); err != nil || len(b.bytes) != 10 {
			t.Error(b, err)
		}
	}
	if len(c.entries) != 0 || c.used != 0 || c.fills != 3 || c.hits != 0 || c.evictions != 3 {
		t.Errorf("%+v", c.stats())
	}
}

func TestCachePins(t *testing.T) {
	c, keys := cacheOf(20, 5)
	first, second := &Lease{}, &Lease{}
	get := func(i int, l *Lease) {
		if _, err := c.get(keys[i], l, fillBytes(10)); err != nil {
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
		{"a release makes room", func() { c.unpin(first) }, []int{0, 1}}, // 2 is the least recently used
		{"again", func() { c.unpin(first) }, []int{0, 1}},
		{"the second lease keeps its own", func() { get(3, nil); get(4, nil) }, []int{1, 4}},
		{"until it goes", func() { c.unpin(second); get(3, nil) }, []int{3, 4}},
	}
	for _, s := range steps {
		s.do()
		if got := c.holds(keys); !slices.Equal(got, s.want) {
			t.Errorf("%s: holds %v, want %v", s.what, got, s.want)
		}
	}
	for i, k := range keys {
		if e := c.entries[k]; e != nil && e.pins != 0 {
			t.Errorf("entry %d still has %d pins", i, e.pins)
		}
	}
}

// together has one goroutine fill an entry, and waiters more ask for it meanwhile. got
// hears what each of them is answered.
func together(c *cache, key cacheKey, waiters int, fill func() (buffer, error), got func(b buffer, err error)) {
	var wg sync.WaitGroup
	filling := make(chan struct{})
	wg.Go(func() {
		defer func() { recover() }() // fill may panic
		got(c.get(key, nil, func() (buffer, error) {
			close(filling)
			for c.stats().Hits < uint64(waiters) { // every one is counted before it waits
				runtime.Gosched()
			}
			return fill()
		}))
	})
	<-filling
	for range waiters {
		wg.Go(func() {
			got(c.get(key, nil, func() (buffer, error) { panic("filled twice") }))
		})
	}
	wg.Wait()
}

func TestCacheFillsOnce(t *testing.T) {
	c, keys := cacheOf(100, 1)
	want := make([]byte, 10)
	var answers atomic.Int32
	together(c, keys[0], 50, func() (buffer, error) { return buffer{bytes: want}, nil }, func(b buffer, err error) {
		answers.Add(1)
		if err != nil || &b.bytes[0] != &want[0] {
			t.Errorf("another buffer, %v", err)
		}
	})
	if answers.Load() != 51 || c.fills != 1 || c.hits != 50 || c.filled != 10 {
		t.Errorf("%d answers, %+v", answers.Load(), c.stats())
	}
}

func TestCacheFailureReachesWaiters(t *testing.T) {
	sorry := errors.New("sorry")
	tests := []struct {
		name    string
		fill    func() (buffer, error)
		want    error
		answers int32
	}{
		{"error", func() (buffer, error) { return buffer{bytes: make([]byte, 5)}, sorry }, sorry, 21},
		{"panic", func() (buffer, error) { panic("sorry") }, errFillPanicked, 20}, // it goes on in whom it happened to
	}
	for _, tt := range tests {
		c, keys := cacheOf(100, 1)
		var answers atomic.Int32
		together(c, keys[0], 20, tt.fill, func(b buffer, err error) {
			answers.Add(1)
			if err != tt.want || b.bytes != nil {
				t.Errorf("%s: %v, %v", tt.name, b, err)
			}
		})
		if answers.Load() != tt.answers || len(c.entries) != 0 || c.used != 0 {
			t.Errorf("%s: %d answers, %+v", tt.name, answers.Load(), c.stats())
		}
	}
}

func TestCacheFailureIsNotKept(t *testing.T) {
	c, keys := cacheOf(100, 1)
	sorry := errors.New("sorry")
	l := &Lease{}
	for range 3 {
		if b, err := c.get(keys[0], l, func() (buffer, error) { return buffer{bytes: make([]byte, 5)}, sorry }); err != sorry || b.bytes != nil {
			t.Errorf("%v, %v", b, err)
		}
	}
	if s := c.stats(); len(c.entries) != 0 || s != (Stats{}) {
		t.Errorf("a failure is kept: %+v", s)
	}
	if b, err := c.get(keys[0], l, fillBytes(10)); err != nil || len(b.bytes) != 10 {
		t.Errorf("after failures: %v", err)
	}
	c.unpin(l)
	if c.used != 10 || c.entries[keys[0]].pins != 0 {
		t.Errorf("%d bytes, %d pins", c.used, c.entries[keys[0]].pins)
	}
}

func TestCacheFormsAreApart(t *testing.T) {
	c, keys := cacheOf(100, 1)
	floats := cacheKey{keys[0].tensor, kindFloat32}
	c.get(keys[0], nil, fillBytes(10))
	b, err := c.get(floats, nil, func() (buffer, error) { return buffer{floats: make([]float32, 5)}, nil })
	if err != nil || len(b.floats) != 5 || c.used != 30 || c.fills != 2 {
		t.Errorf("%v, %+v", err, c.stats())
	}
}

func TestCacheClear(t *testing.T) {
	c, keys := cacheOf(100, 3)
	for _, k := range keys {
		c.get(k, nil, fillBytes(10))
	}
	c.clear()
	if len(c.entries) != 0 || c.used != 0 || c.recent.Len() != 0 {
		t.Errorf("%+v", c.stats())
	}
}

// TestCacheUnderLoad keeps its books right.
func TestCacheUnderLoad(t *testing.T) {
	c, keys := cacheOf(50, 20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			l := &Lease{}
			for i := range 500 {
				n := (i*7 + g*3) % len(keys)
				b, err := c.get(keys[n], l, fillBytes(n))
				if err != nil || len(b.bytes) != n {
					t.Errorf("%d bytes for %d, %v", len(b.bytes), n, err)
				}
				if i%10 == 9 {
					c.unpin(l)
				}
			}
			c.unpin(l)
		})
	}
	wg.Wait()
	used := int64(0)
	for _, e := range c.entries {
		used += e.buf.size()
		if e.pins != 0 {
			t.Errorf("%d pins left", e.pins)
		}
	}
	if used != c.used || used > c.budget || c.recent.Len() != len(c.entries) || c.hits+c.fills != 8*500 {
		t.Errorf("%d bytes used, %d counted, %+v", used, c.used, c.stats())
	}
}
