package layout_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// remote is an Input that hands out copies and counts them.
type remote struct {
	layout.Bytes
	reads, bytes uint64
}

func (r *remote) Slice(off, n uint64) ([]byte, error) {
	b, err := r.Bytes.Slice(off, n)
	r.reads++
	r.bytes += uint64(len(b))
	return bytes.Clone(b), err
}

func TestCursorReadsFields(t *testing.T) {
	file := []byte("..\x01\x02\x01\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x80\x3fname!.")
	c := layout.NewCursor(layout.Bytes(file), layout.BW2L, 2, uint64(len(file))-3)
	if v := c.U8("a"); v != 1 {
		t.Errorf("U8 is %d", v)
	}
	if v := c.U16("b"); v != 0x102 {
		t.Errorf("U16 is %#x", v)
	}
	if v := c.U32("c"); v != 3 {
		t.Errorf("U32 is %d", v)
	}
	if v := c.U64("d"); v != 1<<63+4 {
		t.Errorf("U64 is %#x", v)
	}
	if v := c.I32("e"); v != -1 {
		t.Errorf("I32 is %d", v)
	}
	if v := c.U64("f"); v != math.MaxUint64 {
		t.Errorf("U64 is %#x", v)
	}
	if v := c.U32("g"); v != math.Float32bits(1) {
		t.Errorf("U32 is %#x", v)
	}
	if at := c.Offset(); at != 33 {
		t.Errorf("at %d after the numbers", at)
	}
	if b := c.Peek("h", 99); string(b) != "name!" {
		t.Errorf("Peek sees %q", b)
	}
	if b := c.Take("h", 4); string(b) != "name" || cap(b) != 4 {
		t.Errorf("Take gives %q of capacity %d", b, cap(b))
	}
	c.Skip("i", 1)
	if c.Err() != nil || c.Left() != 0 {
		t.Errorf("%d bytes left, %v", c.Left(), c.Err())
	}
}

func TestCursorKeepsItsFirstError(t *testing.T) {
	overlong := []struct {
		name string
		read func(*layout.Cursor)
	}{
		{"Take", func(c *layout.Cursor) { c.Take("field", 9) }},
		{"Take most", func(c *layout.Cursor) { c.Take("field", math.MaxUint64) }},
		{"Skip", func(c *layout.Cursor) { c.Skip("field", 9) }},
		{"Skip most", func(c *layout.Cursor) { c.Skip("field", math.MaxUint64) }},
		{"Fits", func(c *layout.Cursor) { c.Fits(c.Offset(), "field", 3, 4) }},
		{"Fits most", func(c *layout.Cursor) { c.Fits(c.Offset(), "field", math.MaxUint64, math.MaxUint64) }},
	}
	for _, test := range overlong {
		t.Run(test.name, func(t *testing.T) {
			c := layout.NewCursor(layout.Bytes(make([]byte, 20)), layout.TSM, 10, 10)
			c.U16("first")
			test.read(&c)
			c.Fail(0, "other", layout.ErrInvalid, "later")
			var fe *layout.FormatError
			if !errors.As(c.Err(), &fe) || fe.Offset != 12 || fe.Field != "field" || fe.Format != layout.TSM || !errors.Is(fe, layout.ErrTruncated) {
				t.Errorf("error is %v", c.Err())
			}
			if c.U8("next") != 0 || c.Take("next", 0) != nil || c.Peek("next", 1) != nil || c.Fits(0, "next", 0, 1) {
				t.Error("something is read after an error")
			}
			if c.Offset() != 12 {
				t.Errorf("moved on to %d", c.Offset())
			}
		})
	}
}

type unreadable struct{ layout.Bytes }

var errDisk = errors.New("disk on fire")

func (unreadable) Slice(_, _ uint64) ([]byte, error) { return nil, errDisk }

func TestCursorPassesOnReadErrors(t *testing.T) {
	c := layout.NewCursor(unreadable{make([]byte, 8)}, layout.GGUF, 0, 8)
	c.U32("version")
	var fe *layout.FormatError
	if err := c.Err(); !errors.Is(err, errDisk) || !errors.As(err, &fe) || fe.Field != "version" {
		t.Errorf("error is %v", err)
	}
}

// What is skipped is not fetched, and what is read in one piece comes in few requests.
func TestCursorWindows(t *testing.T) {
	in := &remote{Bytes: make([]byte, 64<<20)}
	c := layout.NewCursor(in, layout.TSM, 0, in.Size())
	for range 1 << 20 {
		c.U8("header")
	}
	if in.reads > 10 || in.bytes > 2<<20 {
		t.Errorf("%d reads of %d bytes for a header of 1 MiB", in.reads, in.bytes)
	}
	before := in.bytes
	for range 8 {
		c.Skip("tensor", 7<<20)
		c.U64("next")
	}
	if got := in.bytes - before; got > 8*4096 {
		t.Errorf("%d bytes read for 8 fields among skipped tensors", got)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestCursorBuffered(t *testing.T) {
	in := &remote{Bytes: make(layout.Bytes, 10_000)}
	c := layout.NewCursor(in, layout.GGUF, 100, 9_900)
	if b := c.Buffered(); len(b) != 0 {
		t.Errorf("%d bytes before anything was read", len(b))
	}
	c.U32("a")
	b := c.Buffered()
	if len(b) != 4092 {
		t.Errorf("%d bytes behind a U32, want the rest of a window", len(b))
	}
	c.Skip("b", uint64(len(b)))
	if c.Offset() != 4196 || len(c.Buffered()) != 0 || in.reads != 1 {
		t.Errorf("at %d with %d bytes after %d reads", c.Offset(), len(c.Buffered()), in.reads)
	}
	c.U8("c")
	c.Skip("d", 1<<40)
	if c.Err() == nil || c.Buffered() != nil {
		t.Errorf("%d bytes after %v", len(c.Buffered()), c.Err())
	}
}
