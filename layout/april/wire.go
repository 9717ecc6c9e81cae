package april

import (
	"errors"
	"io"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// wire reads protobuf's wire format (https://protobuf.dev/programming-guides/encoding)
// from a part of a file. After its first error it returns zeros.
type wire struct {
	layout.Cursor
	message string // what is being read, for errors
	depth   uint64 // how deep groups may nest
	// malformed says that the error is about the bytes, not about reading them.
	malformed bool
}

// maxVarint is the size of the longest varint in bytes.
const maxVarint = 10

// newWire returns a wire that reads the message at e. Errors call it by the name message.
func newWire(in layout.Input, message string, e Entry, lim layout.Limits) wire {
	return wire{Cursor: layout.NewCursor(in, layout.April, e.Offset, e.Size), message: message, depth: lim.Depth}
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

// refuse sets the error, about the bytes at an offset, unless there is one already.
func (w *wire) refuse(at uint64, field string, sentinel error, format string, args ...any) {
	w.malformed = w.malformed || w.Err() == nil
	w.Fail(at, field, sentinel, format, args...)
}

// hasMore reports whether there is more of a message that ends at end.
func (w *wire) hasMore(end uint64) bool { return w.Offset() < end && w.Err() == nil }

// records yields the records of a message that ends at end. It skips groups, and what the loop leaves unread of a value.
func (w *wire) records(end uint64) iter.Seq[record] {
	return func(yield func(record) bool) {
		for w.hasMore(end) {
			r := w.readTag(end)
			switch r.typ {
			case protowire.StartGroupType:
				w.skipGroup(&r, end)
			case protowire.EndGroupType:
				w.refuse(r.at, w.message, layout.ErrInvalid, "the end of group %d, which has not begun", r.num)
			}
			if w.Err() != nil || !yield(r) || w.Err() != nil {
				return
			}
			w.Skip(w.message, r.end-w.Offset())
		}
	}
}

// readTag reads the start of the next record, which may be a group.
func (w *wire) readTag(end uint64) (r record) {
	r.at = w.Offset()
	tag := w.varint(end)
	r.num, r.typ = protowire.DecodeTag(tag)
	switch r.typ {
	case protowire.VarintType:
		r.value = w.varint(end)
	case protowire.BytesType:
		r.size = w.varint(end)
	case protowire.Fixed32Type, protowire.Fixed64Type:
		r.size = numberSizes[r.typ]
	}
	left := end - w.Offset()
	switch {
	case !r.num.IsValid():
		w.refuse(r.at, w.message, layout.ErrInvalid, "the tag %#x, which has no valid field number", tag)
	case r.typ > protowire.Fixed32Type:
		w.refuse(r.at, w.message, layout.ErrInvalid, "field %d has the wire type %d", r.num, r.typ)
	case r.size > left:
		w.refuse(r.at, w.message, layout.ErrTruncated, "field %d has %d bytes, but only %d are left", r.num, r.size, left)
	}
	r.end = w.Offset() + r.size
	return r
}

// varint reads a varint that ends before end.
func (w *wire) varint(end uint64) uint64 {
	v, n := protowire.ConsumeVarint(w.Peek(w.message, maxVarint))
	switch {
	case n >= 0 && uint64(n) <= end-w.Offset():
		w.Skip(w.message, uint64(n))
		return v
	case n >= 0 || errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF):
		w.refuse(w.Offset(), w.message, layout.ErrTruncated, "a varint that has not ended where its message does")
	default:
		w.refuse(w.Offset(), w.message, layout.ErrInvalid, "a varint of more than 64 bits")
	}
	return 0
}

// numberSizes are the sizes in bytes of packed numbers by their wire type. Varints have none.
var numberSizes = [...]uint64{protowire.VarintType: 0, protowire.Fixed32Type: 4, protowire.Fixed64Type: 8}

// skipGroup skips the rest of the group that starts with r.
func (w *wire) skipGroup(r *record, end uint64) {
	open := []protowire.Number{r.num}
	for len(open) > 0 && w.hasMore(end) {
		switch last, in := len(open)-1, w.readTag(end); in.typ {
		case protowire.StartGroupType:
			if uint64(len(open)) >= w.depth {
				w.refuse(in.at, w.message, layout.ErrLimit, "groups nest deeper than %d", w.depth)
			}
			open = append(open, in.num)
		case protowire.EndGroupType:
			if in.num != open[last] {
				w.refuse(in.at, w.message, layout.ErrInvalid, "the end of group %d in group %d", in.num, open[last])
			}
			open = open[:last]
		default:
			w.Skip(w.message, in.size)
		}
	}
	if len(open) > 0 {
		w.refuse(r.at, w.message, layout.ErrTruncated, "group %d does not end where its message does", r.num)
	}
	r.end = w.Offset()
}
