// Package contenttest tests an implementation of [content.Content]: [Run] is what all of them pass. It also has what
// such tests need: ranges to read, sources, and caches.
package contenttest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// Run tests every method of a Content whose bytes must be want. open returns the Content anew, with nothing cached.
func Run(t *testing.T, want []byte, open func(t *testing.T) content.Content) {
	RunElements(t, want, 1, open)
}

// RunElements does what Run does, for a Content that is read only by whole elements of width bytes.
func RunElements(t *testing.T, want []byte, width uint64, open func(t *testing.T) content.Content) {
	size := uint64(len(want))
	ofElements := func(r Range) Range { return Range{r.Off * width, r.N * width} }
	ranges := Ranges(size / width)
	for i, r := range ranges {
		ranges[i] = ofElements(r)
	}
	t.Run("Ranges", func(t *testing.T) {
		c := open(t)
		if c.Size() != size {
			t.Fatalf("%d bytes, want %d", c.Size(), size)
		}
		for _, r := range ranges {
			checkRange(t, c, want, r)
		}
	})
	t.Run("Bounds", func(t *testing.T) {
		c := open(t)
		for _, r := range ranges { // nothing around the destination is written
			buf := bytes.Repeat([]byte{0xa5}, int(r.N)+16)
			if err := readAt(t.Context(), c, buf[8:][:r.N], r.Off); err != nil {
				t.Fatalf("%v: %v", r, err)
			}
			if n := bytes.Count(buf[:8], []byte{0xa5}) + bytes.Count(buf[8+r.N:], []byte{0xa5}); n != 16 {
				t.Fatalf("%v: wrote outside its %d bytes", r, r.N)
			}
			if b, _ := c.View(t.Context(), content.Env{}, r.Off, r.N); uint64(cap(b)) > r.N {
				t.Fatalf("%v: a view of capacity %d", r, cap(b))
			}
		}
	})
	t.Run("Whole", func(t *testing.T) {
		c := open(t)
		if _, err := c.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, err := content.Bytes(t.Context(), content.Env{}, c, content.Limit(size))
		if err != nil || !bytes.Equal(b, want) {
			t.Errorf("Bytes: %d other bytes, %v", len(b), err)
		}
		var out bytes.Buffer
		if err := content.Write(t.Context(), content.Env{}, c, &out); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("Write: %d other bytes, %v", out.Len(), err)
		}
	})
	t.Run("Cost", func(t *testing.T) {
		c := open(t)
		b, err := c.View(t.Context(), content.Env{}, 0, min(size, width))
		// Cost.ReadBytes is 0 exactly if View has bytes. A Content that costs as much as the Whole may do either.
		if cost := c.Cost(); err != nil || size > 0 && !cost.OnlyWhole && (cost.ReadBytes == 0) != (b != nil) {
			t.Errorf("%+v, and a view of %d bytes, %v", cost, len(b), err)
		}
	})
	t.Run("Cancelled", func(t *testing.T) {
		ended, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		c := open(t)
		few := ranges[:min(len(ranges), 10)]
		for _, r := range few {
			p := make([]byte, r.N)
			if err := readAt(ended, c, p, r.Off); err == nil && !bytes.Equal(p, want[r.Off:][:r.N]) || err != nil && !ends(err, why) {
				t.Fatalf("ReadAt %v: %v", r, err)
			}
			if b, err := c.View(ended, content.Env{}, r.Off, r.N); err == nil && b != nil && !bytes.Equal(b, want[r.Off:][:r.N]) || err != nil && !ends(err, why) {
				t.Fatalf("View %v: %v", r, err)
			}
		}
		for _, r := range few { // a context that has not ended reads again
			checkRange(t, c, want, r)
		}
	})
	t.Run("Concurrent", func(t *testing.T) {
		c := open(t)
		Concurrently(size/width, 100_000/width, func(r Range) bool { return checkRange(t, c, want, ofElements(r)) })
	})
	t.Run("Allocations", func(t *testing.T) {
		c := open(t)
		if size == 0 || c.Cost().ReadBytes != 0 || testmode.Races() {
			t.Skip("not in place")
		}
		ctx, p := t.Context(), make([]byte, min(size, 1000*width))
		if n := testing.AllocsPerRun(100, func() {
			c.View(ctx, content.Env{}, size-uint64(len(p)), uint64(len(p)))
			readAt(ctx, c, p, 0)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// checkRange compares the bytes that View and ReadAt return for range r with those of want, all bytes of c. It reports false, after t.Errorf,
// if they differ or a call fails. View may return nil.
func checkRange(t *testing.T, c content.Content, want []byte, r Range) bool {
	t.Helper()
	want = want[r.Off:][:r.N]
	return mmapio.Guard(func() error {
		if b, err := c.View(t.Context(), content.Env{}, r.Off, r.N); err != nil || b != nil && !bytes.Equal(b, want) {
			t.Errorf("View %v: %d bytes, %v", r, len(b), err)
			return errOther
		}
		p := make([]byte, r.N)
		if err := readAt(t.Context(), c, p, r.Off); err != nil || !bytes.Equal(p, want) {
			t.Errorf("ReadAt %v: other bytes, %v", r, err)
			return errOther
		}
		clear(p)
		if err := content.Read(t.Context(), content.Env{}, c, p, r.Off); err != nil || !bytes.Equal(p, want) {
			t.Errorf("Read %v: other bytes, %v", r, err)
			return errOther
		}
		return nil
	}) == nil
}

// readAt calls ReadAt of c, or content.Read if c can only be read as a whole.
func readAt(ctx context.Context, c content.Content, p []byte, off uint64) error {
	if c.Cost().OnlyWhole {
		return content.Read(ctx, content.Env{}, c, p, off)
	}
	return c.ReadAt(ctx, content.Env{}, p, off)
}

var errOther = errors.New("other bytes")

// ends reports whether err is why, the cause of an ended context, or context.Canceled.
func ends(err, why error) bool { return errors.Is(err, why) || errors.Is(err, context.Canceled) }

// NewStore returns an empty cache.
func NewStore() *content.Store {
	s := &content.Store{Cache: new(cache.Cache), Limit: 1 << 30, DropSources: func(cache.Key, *cache.Pins) {}}
	s.Cache.Init(cache.Options{Budget: 1 << 30, CheckSource: func(cache.Key) error { return nil }})
	return s
}

// Cached returns c with a cache of its own.
func Cached(c content.Content) *content.Cached {
	return &content.Cached{Content: c, Store: NewStore(), Key: cache.Key{Tensor: 7}}
}

// Source is a file in memory that is read as one of a network.
type Source []byte

// Size returns the number of bytes.
func (s Source) Size() int64 { return int64(len(s)) }

// Close does nothing.
func (s Source) Close() error { return nil }

// ReadAt copies the bytes from off on to p. It fails once ctx has ended, or if s has too few.
func (s Source) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	_, err := bytes.NewReader(s).ReadAt(p, off)
	return err
}
