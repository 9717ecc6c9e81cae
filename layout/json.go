package layout

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// ParseJSON reads a JSON object (RFC 8259), keeping the order of keys and every digit of
// numbers. Invalid UTF-8, escapes that are half of a surrogate pair, duplicate keys of one
// object, nesting past lim.Depth and anything but white space after the object are errors.
// f, at (the object's offset in the file) and field are for those errors, which are at the
// byte where something else should be; at the opening quote of a string without an end or
// of a key that occurs twice; at the backslash of a bad escape.
//
// The document is copied once: keys, strings without escapes and numbers are parts of the
// copy, which lives as long as one of them. All else is counted before it is allocated, so
// that an array of one-digit numbers takes 9 times its text, and the worst of valid
// documents, short numbers and a null in one array, 17 times.
func ParseJSON(b []byte, f Format, at uint64, field string, lim Limits) (Metadata, error) {
	return parseJSON(b, jsonParser{format: f, at: at, field: field, depth: lim.Depth}, lim)
}

// ParseJSONLastWins is ParseJSON for documents of writers that repeat keys: the last value of
// a key counts, in the place of the first.
func ParseJSONLastWins(b []byte, f Format, at uint64, field string, lim Limits) (Metadata, error) {
	return parseJSON(b, jsonParser{format: f, at: at, field: field, depth: lim.Depth, lastWins: true}, lim)
}

func parseJSON(b []byte, p jsonParser, lim Limits) (Metadata, error) {
	// Below 4 GiB, counts have 32 bits, and keys an index that Names can hold.
	if most := min(lim.HeaderBytes, math.MaxUint32); uint64(len(b)) > most {
		return nil, p.errorf(0, ErrLimit, "%d bytes of JSON, more than %d", len(b), most)
	}
	p.s = string(b) // before it is looked at: b may be mapped, and change
	if bad := validUTF8(p.s); bad < len(p.s) {
		return nil, p.errorf(bad, ErrInvalid, "JSON that is not valid UTF-8: %#02x", p.s[bad])
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.build()
}

// validUTF8 is the length of the longest valid prefix of s.
func validUTF8(s string) (n int) {
	if utf8.ValidString(s) { // the fast way, and the usual answer
		return len(s)
	}
	for {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError && size <= 1 {
			return n
		}
		n += size
	}
}

// jsonParser goes over the text twice: first it checks all but whether keys are unique,
// and counts; then it builds values, and need not look for errors.
type jsonParser struct {
	s      string
	i      int         // the next byte
	groups []jsonGroup // objects and arrays in the order in which they open
	buf    []byte      // for strings with escapes

	format Format
	at     uint64
	field  string
	depth  uint64

	lastWins bool // a key that occurs twice is no error
}

// jsonGroup is what an object or array holds.
type jsonGroup struct {
	n     uint32 // members or elements
	kinds jsonKinds
}

// jsonKinds is a set of kinds of values.
type jsonKinds uint8

const (
	jsonText jsonKinds = 1 << iota
	jsonNumber
	jsonOther
)

func (p *jsonParser) errorf(i int, sentinel error, format string, args ...any) error {
	return Errorf(p.format, p.at+uint64(i), p.field, sentinel, format, args...)
}

// unexpected is the error of finding anything but want.
func (p *jsonParser) unexpected(want string) error {
	found := "the end of the JSON"
	if p.i < len(p.s) {
		r, _ := utf8.DecodeRuneInString(p.s[p.i:])
		found = fmt.Sprintf("%q", r)
	}
	return p.errorf(p.i, ErrInvalid, "%s where %s should be", found, want)
}

// next skips white space and is the byte after it, which is not consumed; at the end 0,
// which no token starts with.
func (p *jsonParser) next() byte {
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}
