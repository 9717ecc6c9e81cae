package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// ParseJSON reads a JSON object, keeping the order of keys and every digit of numbers.
// Invalid UTF-8, duplicate keys of one object, nesting past lim.Depth and anything but
// white space after the object are errors. f, at (the object's offset in the file) and
// field are for those errors.
func ParseJSON(b []byte, f Format, at uint64, field string, lim Limits) (Metadata, error) {
	p := jsonParser{dec: json.NewDecoder(bytes.NewReader(b)), format: f, at: at, field: field, depth: lim.Depth}
	p.dec.UseNumber()
	if uint64(len(b)) > lim.HeaderBytes {
		return nil, p.errorf(ErrLimit, "%d bytes of JSON, more than %d", len(b), lim.HeaderBytes)
	}
	if bad := validUTF8(b); bad < len(b) {
		return nil, Errorf(f, at+uint64(bad), field, ErrInvalid, "JSON that is not valid UTF-8: %#02x", b[bad])
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	md, ok := v.(Metadata)
	if !ok {
		return nil, p.errorf(ErrInvalid, "JSON is not an object")
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.errorf(ErrInvalid, "bytes after the JSON object")
	}
	return md, nil
}

// validUTF8 is the length of the longest valid prefix of b.
func validUTF8(b []byte) (n int) {
	if utf8.Valid(b) { // the fast way, and the usual answer
		return len(b)
	}
	for {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size <= 1 {
			return n
		}
		n += size
	}
}

type jsonParser struct {
	dec    *json.Decoder
	format Format
	at     uint64
	field  string
	depth  uint64
}

func (p *jsonParser) errorf(sentinel error, format string, args ...any) error {
	return Errorf(p.format, p.at+uint64(p.dec.InputOffset()), p.field, sentinel, format, args...)
}

func (p *jsonParser) token() (json.Token, error) {
	t, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, p.errorf(ErrInvalid, "JSON: %v", err)
	}
	return t, nil
}

func (p *jsonParser) value(depth uint64) (any, error) {
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	delim, nested := t.(json.Delim)
	if !nested {
		return t, nil
	}
	if depth >= p.depth {
		return nil, p.errorf(ErrLimit, "JSON nested deeper than %d", p.depth)
	}
	if delim == '{' {
		return p.object(depth + 1)
	}
	return p.array(depth + 1)
}

func (p *jsonParser) object(depth uint64) (Metadata, error) {
	md := Metadata{}
	seen := make(map[string]struct{})
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // Token answers anything else here with an error
		if _, dup := seen[key]; dup {
			return nil, p.errorf(ErrDuplicate, "key %s occurs twice", Quote([]byte(key)))
		}
		seen[key] = struct{}{}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		md = append(md, Entry{key, v})
	}
	_, err := p.token()
	return md, err
}

func (p *jsonParser) array(depth uint64) ([]any, error) {
	list := []any{}
	for p.dec.More() {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.token()
	return list, err
}
