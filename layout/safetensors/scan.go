package safetensors

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// scanner reads JSON (RFC 8259) in one pass over the header.
type scanner struct {
	b    []byte
	i    int    // the next byte
	base uint64 // of b in the file
	// seen are keys of the objects being read, to find the ones that occur twice.
	seen []seenKey
}

type key struct {
	name []byte
	at   int
}

// seenKey is a key for later comparison, in less memory than its name may take.
type seenKey struct {
	hash uint64
	at   int
}

func (s *scanner) offset(i int) uint64 { return s.base + uint64(i) }

func (s *scanner) errorf(i int, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, s.offset(i), "header", sentinel, format, args...)
}

// unexpected is the error of finding anything but want.
func (s *scanner) unexpected(want string) error {
	found := "the header's end"
	if s.i < len(s.b) {
		found = fmt.Sprintf("%q", s.b[s.i:s.i+1])
	}
	return s.errorf(s.i, layout.ErrInvalid, "%s where %s should be", found, want)
}

// next skips white space and is the byte after it, which is not consumed; at the end 0,
// which no value starts with.
func (s *scanner) next() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.nextAfterSpace()
}

func (s *scanner) nextAfterSpace() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// open consumes c, an opening bracket or brace.
func (s *scanner) open(c byte, want string) error {
	if s.next() != c {
		return s.unexpected(want)
	}
	s.i++
	return nil
}

// more moves to the next element of an array or object, or past its end. first says
// that none was read yet.
func (s *scanner) more(end byte, first bool) (bool, error) {
	switch c := s.next(); {
	case c == end:
		s.i++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.i++
		return true, nil
	}
	return false, s.unexpected("',' or '" + string(end) + "'")
}

// key reads a key and its colon.
func (s *scanner) key() (key, error) {
	quote := s.next()
	at := s.i
	if quote != '"' {
		return key{}, s.unexpected("a key")
	}
	name, err := s.text()
	if err != nil {
		return key{}, err
	}
	if s.next() != ':' {
		return key{}, s.unexpected("':'")
	}
	s.i++
	return key{name, at}, nil
}

// skip consumes text where it stands next.
func (s *scanner) skip(text string) bool {
	if end := s.i + len(text); end <= len(s.b) && string(s.b[s.i:end]) == text {
		s.i = end
		return true
	}
	return false
}

// uint reads an integer that fits 64 bits and has neither sign, fraction nor exponent.
func (s *scanner) uint() (uint64, error) {
	if c := s.next(); c < '0' || c > '9' {
		return 0, s.unexpected("a non-negative integer")
	}
	v, digits := decimal(s.b[s.i:])
	end := s.i + digits
	if digits > 19 || digits > 1 && s.b[s.i] == '0' || end < len(s.b) && (s.b[end] == '.' || s.b[end]|0x20 == 'e') {
		return s.oddUint(s.b[s.i:end])
	}
	s.i = end
	return v, nil
}

// oddUint reads an integer of so many digits that it may not fit, and says what is
// wrong with others. digits stand next.
func (s *scanner) oddUint(digits []byte) (uint64, error) {
	shown := digits[:min(len(digits), 40)]
	if after := s.i + len(digits); after < len(s.b) && (s.b[after] == '.' || s.b[after]|0x20 == 'e') {
		return 0, s.errorf(s.i, layout.ErrInvalid, "%s%c… is a number with a fraction or an exponent", shown, s.b[after])
	}
	if digits[0] == '0' {
		return 0, s.errorf(s.i, layout.ErrInvalid, "integer %s has leading zeros", shown)
	}
	v, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0, s.errorf(s.i, layout.ErrInvalid, "integer %s (%d digits) does not fit 64 bits", shown, len(digits))
	}
	s.i += len(digits)
	return v, nil
}

// ignore checks a value that nobody asked for; depth counts the objects and arrays
// around it, and may become most.
func (s *scanner) ignore(depth, most uint64) error {
	switch c := s.next(); {
	case c == '"':
		_, err := s.text()
		return err
	case c == '{' || c == '[':
		if depth >= most {
			return s.errorf(s.i, layout.ErrLimit, "JSON nested deeper than %d", most)
		}
		if c == '[' {
			return s.array(func() error { return s.ignore(depth+1, most) })
		}
		return s.object("an object", func(key) error { return s.ignore(depth+1, most) })
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case s.skip("true"), s.skip("false"), s.skip("null"):
		return nil
	}
	return s.unexpected("a value")
}

func (s *scanner) array(element func() error) error {
	if err := s.open('[', "an array"); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := s.more(']', first); err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// object reads an object whose keys differ; value reads the value of each.
func (s *scanner) object(want string, value func(key) error) error {
	if err := s.open('{', want); err != nil {
		return err
	}
	outer := len(s.seen)
	for first := true; ; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			return s.distinct(outer)
		}
		k, err := s.key()
		if err != nil {
			return err
		}
		s.remember(k)
		if err := value(k); err != nil {
			return err
		}
	}
}

func (s *scanner) remember(k key) {
	s.seen = append(s.seen, seenKey{layout.HashNameBytes(k.name), k.at})
}

// distinct makes sure that no two of s.seen[from:] are the same key, and forgets them.
func (s *scanner) distinct(from int) error {
	seen := s.seen[from:]
	s.seen = s.seen[:from]
	slices.SortFunc(seen, func(x, y seenKey) int {
		return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.at, y.at))
	})
	for i, k := range seen {
		for j := i; j > 0 && seen[j-1].hash == k.hash; j-- {
			if name := s.nameAt(k.at); bytes.Equal(name, s.nameAt(seen[j-1].at)) {
				return s.errorf(k.at, layout.ErrDuplicate, "key %s occurs twice", layout.Quote(name))
			}
		}
	}
	return nil
}

// nameAt reads the key at i once more.
func (s *scanner) nameAt(i int) []byte {
	again := scanner{b: s.b, i: i}
	name, _ := again.text()
	return name
}

// number checks a number of any notation.
func (s *scanner) number() error {
	s.skip("-")
	if !s.skip("0") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.skip(".") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.skip("e") || s.skip("E") {
		if !s.skip("+") {
			s.skip("-")
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

// digits skips any number of digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}
