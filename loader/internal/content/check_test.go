package content_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/content/contenttest"
	"github.com/tensormap/tensormap/mmapio"
)

// checkContent tests every method of a Content whose bytes must be want. open returns the Content anew, with nothing cached.
func checkContent(t *testing.T, want []byte, open func(t *testing.T) content.Content) {
	size := uint64(len(want))
	t.Run("Ranges", func(t *testing.T) {
		c := open(t)
		if c.Size() != size {
			t.Fatalf("%d bytes, want %d", c.Size(), size)
		}
		for _, r := range contenttest.Ranges(size) {
			checkRange(t, c, want, r)
		}
	})
	t.Run("Bounds", func(t *testing.T) {
		c := open(t)
		for _, r := range contenttest.Ranges(size) { // nothing around the destination is written
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
		b, err := c.View(t.Context(), content.Env{}, 0, min(size, 1))
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
		few := contenttest.Ranges(size)
		few = few[:min(len(few), 10)]
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
		contenttest.Concurrently(size, 100_000, func(r contenttest.Range) bool { return checkRange(t, c, want, r) })
	})
	t.Run("Allocations", func(t *testing.T) {
		c := open(t)
		if size == 0 || c.Cost().ReadBytes != 0 || testmode.Races() {
			t.Skip("not in place")
		}
		ctx, p := t.Context(), make([]byte, min(size, 1000))
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
func checkRange(t *testing.T, c content.Content, want []byte, r contenttest.Range) bool {
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
