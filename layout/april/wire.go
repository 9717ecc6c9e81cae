package april

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// wire reads protobuf's wire format (https://protobuf.dev/programming-guides/encoding)
// from a file. It keeps the first error, as its Cursor does.
type wire struct {
	layout.Cursor
	message string // what is being read, for errors
	depth   uint64 // how deep groups may nest
	// malformed says that the error is about the bytes, not about getting at them.
	malformed bool
}

func newWire(in layout.Input, message string, e Entry, lim layout.Limits) wire {
	return wire{Cursor: layout.NewCursor(in, layout.April, e.Offset, e.Size), message: message, depth: lim.Depth}
}

// record is a field of a message. A varint's value is in it; of all else the size bytes of
// the value come next.
type record struct {
	at    uint64 // where the record starts
	num   protowire.Number
	typ   protowire.Type
	value uint64
	size  uint64
	end   uint64 // where the next record starts
}

// fail keeps an error about the bytes.
func (w *wire) fail(at uint64, field string, sentinel error, format string, args ...any) {
	w.malformed = w.malformed || w.Err() == nil
	w.Fail(at, field, sentinel, format, args...)
}

// more reports whether a message that ends at end goes on.
func (w *wire) more(end uint64) bool { return w.Err() == nil && w.Offset() < end }

// varint reads a varint that ends before end.
func (w *wire) varint(end uint64) uint64 {
	b := w.Peek(w.message, min(10, end-w.Offset()))
	v, n := protowire.ConsumeVarint(b)
	if n < 0 {
		w.badVarint(n)
		return 0
	}
	w.Skip(w.message, uint64(n))
	return v
}

// badVarint explains a length that protowire gave for one.
func (w *wire) badVarint(n int) {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		w.fail(w.Offset(), w.message, layout.ErrTruncated, "a varint that has not ended where its message does")
	} else {
		w.fail(w.Offset(), w.message, layout.ErrInvalid, "a varint of more than 64 bits")
	}
}

// record reads the start of the next record of a message that ends at end. A group is
// stepped over. After an error it is the zero record.
func (w *wire) record(end uint64) record {
	r := w.head(end)
	switch r.typ {
	case protowire.StartGroupType:
		w.group(r, end)
		r.end = w.Offset()
	case protowire.EndGroupType:
		w.fail(r.at, w.message, layout.ErrInvalid, "the end of group %d, which has not begun", r.num)
	}
	if w.Err() != nil {
		return record{}
	}
	return r
}

// head is record, but for groups, which it does not enter.
func (w *wire) head(end uint64) record {
	r := record{at: w.Offset()}
	tag := w.varint(end)
	r.num, r.typ = protowire.DecodeTag(tag)
	if !r.num.IsValid() && w.Err() == nil {
		w.fail(r.at, w.message, layout.ErrInvalid, "the tag %#x, which has no valid field number", tag)
	}
	switch r.typ {
	case protowire.VarintType:
		r.value = w.varint(end)
	case protowire.Fixed32Type:
		r.size = 4
	case protowire.Fixed64Type:
		r.size = 8
	case protowire.BytesType:
		r.size = w.varint(end)
	case protowire.StartGroupType, protowire.EndGroupType:
	default:
		w.fail(r.at, w.message, layout.ErrInvalid, "field %d has the wire type %d", r.num, r.typ)
	}
	if left := end - w.Offset(); r.size > left {
		w.fail(r.at, w.message, layout.ErrTruncated, "field %d of %d bytes, but only %d are left", r.num, r.size, left)
	}
	r.end = w.Offset() + r.size
	return r
}

// group steps over the rest of a group that has been started by r.
func (w *wire) group(r record, end uint64) {
	open := []protowire.Number{r.num}
	for len(open) > 0 && w.Err() == nil {
		if w.Offset() == end {
			w.fail(r.at, w.message, layout.ErrTruncated, "group %d does not end where its message does", r.num)
			return
		}
		r := w.head(end)
		switch last := len(open) - 1; r.typ {
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
			w.Skip(w.message, r.size)
		}
	}
}
