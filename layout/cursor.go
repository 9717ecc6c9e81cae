package layout

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Cursor reads a part of a file from front to back, for formats whose fields have no fixed
// place. After its first error every read returns zero. A decoder reads the fields of a record and
// asks Err once.
//
// A Cursor fetches the file in windows. They grow while it reads on, and start small behind a
// Skip, so that a remote file's tensors are stepped over and not fetched.
type Cursor struct {
	in     Input
	format Format
	window []byte // fetched and not read yet
	at     uint64 // where window begins in the file
	end    uint64 // where the part ends
	step   uint64 // size of the next window
	err    error
}

const (
	firstWindow = 4 << 10
	maxWindow   = 1 << 20
)

// NewCursor returns a cursor over the n bytes at off. The caller has made sure that they are in
// the file.
func NewCursor(in Input, f Format, off, n uint64) Cursor {
	return Cursor{in: in, format: f, at: off, end: off + n, step: firstWindow}
}

// Offset returns the position in the file of the next read.
func (c *Cursor) Offset() uint64 { return c.at }

// Left returns the number of bytes that are left to read.
func (c *Cursor) Left() uint64 { return c.end - c.at }

// Err returns the first error, a *[FormatError], or nil.
func (c *Cursor) Err() error { return c.err }

// Fail sets the cursor's error, about the field at offset at, unless there is one already.
func (c *Cursor) Fail(at uint64, field string, sentinel error, format string, args ...any) {
	if c.err == nil {
		c.err = Errorf(c.format, at, field, sentinel, format, args...)
	}
}

// Take reads n bytes, which must not be written to and live as long as the file. It returns nil
// after an error. Too few bytes left is an error.
func (c *Cursor) Take(field string, n uint64) []byte {
	if n > uint64(len(c.window)) || c.err != nil {
		if !c.fetch(field, n) {
			return nil
		}
	}
	b := c.window[:n:n]
	c.window = c.window[n:]
	c.at += n
	return b
}

// Peek returns up to n of the bytes that come next, without reading them. It returns fewer if
// fewer are left.
func (c *Cursor) Peek(field string, n uint64) []byte {
	n = min(n, c.Left())
	if n > uint64(len(c.window)) || c.err != nil {
		if !c.fetch(field, n) {
			return nil
		}
	}
	return c.window[:n:n]
}

// Buffered returns the bytes that were fetched and not read yet. It may be empty. The caller
// steps over them with Skip.
func (c *Cursor) Buffered() []byte {
	if c.err != nil {
		return nil
	}
	return c.window
}

// Skip steps over n bytes without reading them.
func (c *Cursor) Skip(field string, n uint64) {
	switch {
	case c.err != nil:
	case n > c.Left():
		c.failShort(field, n)
	case n <= uint64(len(c.window)):
		c.window = c.window[n:]
		c.at += n
	default:
		c.window, c.step = nil, firstWindow
		c.at += n
	}
}

// Fits reports whether count records of at least size bytes fit the bytes left, and fails if
// they do not. at is the offset where the file states count. A decoder asks it before it
// allocates or loops on the file's word.
func (c *Cursor) Fits(at uint64, field string, count, size uint64) bool {
	if c.err == nil && count > c.Left()/size {
		c.Fail(at, field, ErrTruncated, "%d records of at least %d bytes do not fit the %d bytes left", count, size, c.Left())
	}
	return c.err == nil
}

// CheckText fails unless text, the value of a field at offset at, is UTF-8 without a NUL byte.
func (c *Cursor) CheckText(at uint64, field string, text []byte) {
	switch {
	case !utf8.Valid(text):
		c.Fail(at, field, ErrInvalid, "%s is not valid UTF-8", Quote(text))
	case bytes.IndexByte(text, 0) >= 0:
		c.Fail(at, field, ErrInvalid, "%s holds a NUL byte", Quote(text))
	}
}

// Number reads a number of n bytes, at most 8. It returns zeros after an error.
func (c *Cursor) Number(field string, n uint64) []byte {
	if b := c.Take(field, n); b != nil {
		return b
	}
	return make([]byte, 8)
}

// U8 reads a byte.
func (c *Cursor) U8(field string) uint8 { return c.Number(field, 1)[0] }

// U16 reads a u16.
func (c *Cursor) U16(field string) uint16 { return binary.LittleEndian.Uint16(c.Number(field, 2)) }

// U32 reads a u32.
func (c *Cursor) U32(field string) uint32 { return binary.LittleEndian.Uint32(c.Number(field, 4)) }

// U64 reads a u64.
func (c *Cursor) U64(field string) uint64 { return binary.LittleEndian.Uint64(c.Number(field, 8)) }

// I32 reads an i32.
func (c *Cursor) I32(field string) int32 { return int32(c.U32(field)) }

// fetch reads a window of at least n bytes. It reports false, and sets c.err, if fewer are left or they cannot be read.
func (c *Cursor) fetch(field string, n uint64) bool {
	switch {
	case c.err != nil:
		return false
	case n > c.Left():
		c.failShort(field, n)
		return false
	}
	size := min(max(n, c.step), c.Left())
	b, err := c.in.Slice(c.at, size)
	if err != nil {
		c.err = &FormatError{Format: c.format, Offset: c.at, Field: field, Reason: "cannot be read", Err: err}
		return false
	}
	c.window = b
	c.step = min(2*c.step, maxWindow)
	return true
}

// failShort sets c.err, unless it is set, to the error that n bytes of field are asked for and fewer are left.
func (c *Cursor) failShort(field string, n uint64) {
	c.Fail(c.at, field, ErrTruncated, "%d bytes, but only %d are left", n, c.Left())
}

// CutStrings cuts count strings off the front of s, each behind its length, a number of width bytes. It stops before a string that s does not
// hold whole. The caller has made sure that count is at most the bytes of s.
func CutStrings(s string, count, width int) (list []string, rest string) {
	list = make([]string, 0, count)
	for len(list) < count && len(s) >= width {
		n := uint64(0)
		for i := range width {
			n |= uint64(s[i]) << (8 * i)
		}
		if n > uint64(len(s)-width) {
			break
		}
		list = append(list, s[width:][:n])
		s = s[uint64(width)+n:]
	}
	return list, s
}
