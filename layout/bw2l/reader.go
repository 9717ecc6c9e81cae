package bw2l

import (
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// reader reads what headers only point to. After an error, which it keeps, it reads nothing.
type reader struct {
	file *File
	in   layout.Input
	left uint64 // of Limits.HeaderBytes
	err  error
	odd  malformed
}

// malformed counts texts that are not valid UTF-8.
type malformed struct {
	n     int
	field string // of the first one
	at    uint64
}

func (f *File) reader(in layout.Input) reader {
	return reader{file: f, in: in, left: f.lim.HeaderBytes}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// afford reports whether a piece of the file may still be read.
func (r *reader) afford(field string, s span) bool {
	if s.size > r.left {
		r.fail(layout.Errorf(layout.BW2L, s.off, field, layout.ErrLimit, "with these %d bytes, metadata has more than %d",
			s.size, r.file.lim.HeaderBytes))
	}
	if r.err == nil {
		r.left -= s.size
	}
	return r.err == nil
}

// read returns bytes of the input.
func (r *reader) read(field string, s span) []byte {
	if !r.afford(field, s) {
		return nil
	}
	b, err := layout.Region(r.in, layout.BW2L, s.off, field, s.off, s.size)
	r.fail(err)
	return b
}

func (r *reader) text(field string, s span) any {
	return r.decoded(field, s.off, r.read(field, s))
}

// decoded is a copy of b: a string, or a Blob where it is not valid UTF-8.
func (r *reader) decoded(field string, at uint64, b []byte) any {
	s := string(b) // before it is looked at: b may be mapped, and change
	if utf8.ValidString(s) {
		return s
	}
	if r.odd.n++; r.odd.n == 1 {
		r.odd.field, r.odd.at = field, at
	}
	return layout.Blob(s)
}
