package april

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// wire reads protobuf's wire format (https://protobuf.dev/programming-guides/encoding)
// from a part of a file. After its first error it returns zeros.
type wire struct {
	cursor  layout.Cursor // where window was taken from
	window  []byte        // the bytes from at on that are read
	at      uint64
	rec     record // the record that next has read the start of
	message string // what is being read, for errors
	depth   uint64 // how deep groups may nest
	// malformed says that the error is about the bytes, not about reading them.
	malformed bool
}

const (
	windowSize = 512 // bytes to ask the cursor for; it reads ahead by itself
	maxVarint  = 10  // bytes of the longest varint
)

// newWire returns a wire that reads the message at e. Errors call it by the name message.
func newWire(in layout.Input, message string, e Entry, lim layout.Limits) wire {
	return wire{
		cursor:  layout.NewCursor(in, layout.April, e.Offset, e.Size),
		at:      e.Offset,
		message: message,
		depth:   lim.Depth,
	}
}

// record is a field of a message. It has the value of a varint. Any other value follows, size bytes
// long.
type record struct {
	at    uint64 // where the record starts
	num   protowire.Number
	typ   protowire.Type
	value uint64
	size  uint64
	end   uint64 // where the next record starts
}

func (w *wire) err() error { return w.cursor.Err() }

// fail sets the error, about the bytes at an offset, unless there is one already.
func (w *wire) fail(at uint64, field string, sentinel error, format string, args ...any) {
	w.malformed = w.malformed || w.err() == nil
	w.cursor.Fail(at, field, sentinel, format, args...)
}

// more reports whether there is more of a message that ends at end.
func (w *wire) more(end uint64) bool { return w.at < end && w.err() == nil }

// next reads the start of the next record of a message that ends at end, and reports
// whether there is one. It skips groups.
func (w *wire) next(end uint64) bool {
	if !w.more(end) {
		return false
	}
	w.head(end)
	switch w.rec.typ {
	case protowire.StartGroupType:
		w.group(end)
	case protowire.EndGroupType:
		w.fail(w.rec.at, w.message, layout.ErrInvalid, "the end of group %d, which has not begun", w.rec.num)
	}
	return w.err() == nil
}

// head reads the start of the next record, which may be a group.
func (w *wire) head(end uint64) {
	r := &w.rec
	r.at, r.size = w.at, 0
	tag := w.varint(end)
	r.num, r.typ = protowire.DecodeTag(tag)
	switch r.typ {
	case protowire.VarintType:
		r.value = w.varint(end)
	case protowire.BytesType:
		r.size = w.varint(end)
	case protowire.Fixed32Type:
		r.size = 4
	case protowire.Fixed64Type:
		r.size = 8
	}
	switch {
	case !r.num.IsValid():
		w.fail(r.at, w.message, layout.ErrInvalid, "the tag %#x, which has no valid field number", tag)
	case r.typ > protowire.Fixed32Type:
		w.fail(r.at, w.message, layout.ErrInvalid, "field %d has the wire type %d", r.num, r.typ)
	case r.size > end-w.at:
		w.fail(r.at, w.message, layout.ErrTruncated, "field %d has %d bytes, but only %d are left", r.num, r.size, end-w.at)
	default:
		r.end = w.at + r.size
	}
}

// varint reads a varint that ends before end.
func (w *wire) varint(end uint64) uint64 {
	if len(w.window) < maxVarint {
		w.peek(maxVarint)
	}
	v, n := protowire.ConsumeVarint(w.window)
	switch {
	case n >= 0 && uint64(n) <= end-w.at:
		w.window = w.window[n:]
		w.at += uint64(n)
		return v
	case n >= 0 || errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF):
		w.fail(w.at, w.message, layout.ErrTruncated, "a varint that has not ended where its message does")
	default:
		w.fail(w.at, w.message, layout.ErrInvalid, "a varint of more than 64 bits")
	}
	return 0
}

// peek returns the next n bytes. They are fewer if fewer are left or can be read.
func (w *wire) peek(n uint64) []byte {
	if n > uint64(len(w.window)) {
		w.cursor.Skip(w.message, w.at-w.cursor.Offset())
		w.window = w.cursor.Peek(w.message, max(n, windowSize))
	}
	return w.window[:min(n, uint64(len(w.window)))]
}

// skip skips n bytes that are known to be there.
func (w *wire) skip(n uint64) {
	w.window = w.window[min(n, uint64(len(w.window))):]
	w.at += n
}

// take reads n bytes that are known to be there. It returns nil if they cannot be read.
func (w *wire) take(n uint64) []byte {
	b := w.peek(n)
	if uint64(len(b)) < n {
		return nil
	}
	w.skip(n)
	return b
}

// group skips the rest of the group that starts with the record.
func (w *wire) group(end uint64) {
	start := w.rec
	open := []protowire.Number{start.num}
	for len(open) > 0 && w.more(end) {
		w.head(end)
		switch last, r := len(open)-1, &w.rec; r.typ {
		case protowire.StartGroupType:
			if uint64(len(open)) >= w.depth {
				w.fail(r.at, w.message, layout.ErrLimit, "groups nest deeper than %d", w.depth)
			}
			open = append(open, r.num)
		case protowire.EndGroupType:
			if r.num != open[last] {
				w.fail(r.at, w.message, layout.ErrInvalid, "the end of group %d in group %d", r.num, open[last])
			}
			open = open[:last]
		default:
			w.skip(r.size)
		}
	}
	if len(open) > 0 {
		w.fail(start.at, w.message, layout.ErrTruncated, "group %d does not end where its message does", start.num)
	}
	w.rec = start
	w.rec.end = w.at
}
