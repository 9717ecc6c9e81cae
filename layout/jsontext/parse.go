package jsontext

import (
	"encoding/json"

	"github.com/tensormap/tensormap/layout"
)

// MaxValues is the largest number of values that Parse makes of a text: members of objects and elements of arrays. Every value
// takes up to 80 bytes of memory. A vocabulary of 256,000 tokens and its merges have fewer than half of them.
const MaxValues = 1 << 21

// Parse reads an object, keeping the order of keys and every digit of numbers. at is the offset of text in its file, of format f,
// and field its name there, both for errors. A key that occurs twice in one object is an error at its opening quote. More than
// MaxValues values are layout.ErrLimit.
//
// Values are nil, bool, string, [json.Number], [layout.Metadata] and []any. Parse copies the text once. Keys, strings without
// escapes and numbers are substrings of the copy, which stays in memory as long as one of them.
func Parse[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return newParser(text, f, at, field, lim).document()
}

// ParsePython reads an object as Parse does, but a value may be NaN, Infinity or -Infinity, as Python's json writes floats.
// It becomes the string that [layout.Metadata.MarshalJSON] writes for such a float.
func ParsePython[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	p := newParser(text, f, at, field, lim)
	p.python = true
	return p.document()
}

// ParseLastWins reads an object as Parse does, but a key may occur twice. The last value counts, in the place of the first.
func ParseLastWins[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	p := newParser(text, f, at, field, lim)
	p.lastWins = true
	return p.document()
}

// ParseValue reads any value as Parse reads an object.
func ParseValue[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (any, error) {
	p := newParser(text, f, at, field, lim)
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.any(), p.Err()
}

// Check returns the error that Parse would, and makes no values.
func Check[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) error {
	return newParser(text, f, at, field, lim).checkObject()
}

// parser makes Go values of JSON. It checks all of the text before it makes any.
type parser struct {
	Scanner[string]
	lastWins bool // a key may occur twice in an object
}

// newParser copies the text before it reads it: the text may be mapped, and change.
func newParser[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) *parser {
	if s := New(text, f, at, field, lim); s.err != nil { // too long to be copied
		return &parser{Scanner: Scanner[string]{err: s.err}}
	}
	return &parser{Scanner: New(string(text), f, at, field, lim)}
}

// document returns the object that the text is. It fails if the text is something else, or invalid.
func (p *parser) document() (layout.Metadata, error) {
	if err := p.checkObject(); err != nil {
		return nil, err
	}
	md := p.object()
	if p.err != nil {
		return nil, p.err
	}
	return md, nil
}

// checkObject returns an error unless the text is one valid object. It does not advance p.
func (p *parser) checkObject() error {
	if p.err == nil && p.Next() != '{' {
		p.Unexpected("an object")
	}
	return p.check()
}

// check returns an error unless the text is one valid value, of MaxValues values at most. It does not advance p.
func (p *parser) check() error {
	ahead := p.Scanner
	ahead.maxValues = 1 + MaxValues // the text itself is none of them
	ahead.allowsRepeats = p.lastWins
	ahead.Skip()
	ahead.End()
	p.allowsRepeats = true // they have been checked
	return ahead.Err()
}

// count returns the number of members or elements of the object or array that comes next. So a text is passed once more for every
// level of nesting. Limits.Depth allows 64 levels.
func (p *parser) count() int {
	ahead := p.Scanner
	return ahead.Skip()
}

// any reads the next value. After an error the value means nothing.
func (p *parser) any() any {
	switch p.Next() {
	case '"':
		return p.Text()
	case '{':
		return p.object()
	case '[':
		return p.array()
	case 't', 'f':
		return p.take("true") || !p.take("false")
	case 'n':
		p.take("null")
		return nil
	}
	if text, ok := p.notFinite(); ok {
		return text
	}
	return p.number()
}

// object reads the object that comes next.
func (p *parser) object() layout.Metadata {
	md := make(layout.Metadata, 0, p.count())
	for p.Open('{', "an object"); p.More('}'); {
		key, _ := p.Key()
		md = append(md, layout.Entry{Key: key, Value: p.any()})
	}
	if p.lastWins {
		all := md
		md = make(layout.Metadata, 0, len(all))
		md.Merge(all)
	}
	return md
}

// array reads the array that comes next.
func (p *parser) array() []any {
	list := make([]any, 0, p.count())
	for p.Open('[', "an array"); p.More(']'); {
		list = append(list, p.any())
	}
	return list
}

// digits are the numbers of one digit. As values they share their memory, which else would be 16 bytes for 2 of text.
var digits = [...]any{
	json.Number("0"), json.Number("1"), json.Number("2"), json.Number("3"), json.Number("4"),
	json.Number("5"), json.Number("6"), json.Number("7"), json.Number("8"), json.Number("9"),
}

// number reads the number that comes next, as a json.Number.
func (p *parser) number() any {
	text := p.Number()
	if len(text) == 1 {
		return digits[text[0]-'0']
	}
	return json.Number(text)
}
