package jsontext

import (
	"encoding/json"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Parse reads an object, keeping the order of keys and every digit of numbers. at is the offset
// of text in its file, of format f, and field its name there, both for errors. A key that occurs
// twice in one object is an error at its opening quote.
//
// The text is copied once. Keys, strings without escapes and numbers are parts of the copy,
// which lives as long as one of them. All else is counted before it is allocated: an array of
// one-digit numbers takes 9 times its text, and the worst of valid documents 17 times.
func Parse[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return parseObject(text, f, at, field, lim, false)
}

// ParseLastWins reads an object as Parse does, but a key may occur twice. The last value counts,
// in the place of the first.
func ParseLastWins[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return parseObject(text, f, at, field, lim, true)
}

// ParseValue reads any value as Parse reads an object.
func ParseValue[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (any, error) {
	p, err := newParser(text, f, at, field, lim)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, err
	}
	return p.value(), nil
}

func parseObject[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits, lastWins bool) (layout.Metadata, error) {
	p, err := newParser(text, f, at, field, lim)
	if err != nil {
		return nil, err
	}
	p.lastWins = lastWins
	if p.Next() != '{' {
		p.Unexpected("an object")
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.object(), nil
}

// newParser copies the text before it is looked at: it may be mapped, and change.
func newParser[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (*parser, error) {
	if s := New(text, f, at, field, lim); s.err != nil {
		return nil, s.err
	}
	return &parser{New(string(text), f, at, field, lim)}, nil
}

// check checks all of the text and counts what is in its groups.
func (p *parser) check() error {
	// Brackets in strings count too, which makes these a few more than needed.
	p.groups = make([]group, 0, strings.Count(p.text, "{")+strings.Count(p.text, "["))
	p.skip()
	p.End()
	p.at = 0
	return p.Err()
}

// parser makes values of a text that was checked. p.groups counts those that are still to come.
type parser struct{ Scanner[string] }

func (p *parser) value() any {
	switch p.Next() {
	case '"':
		return p.string()
	case '{':
		return p.object()
	case '[':
		return p.array()
	case 't':
		p.take("true")
		return true
	case 'f':
		p.take("false")
		return false
	case 'n':
		p.take("null")
		return nil
	}
	return p.number()
}

func (p *parser) object() layout.Metadata {
	g := p.nextGroup()
	md := make(layout.Metadata, 0, g.n)
	for p.Open('{', ""); p.More('}'); {
		key := p.string()
		p.Next()
		p.at++ // the colon
		md = append(md, layout.Entry{Key: key, Value: p.value()})
	}
	if g.kinds == repeats {
		all := md
		md = make(layout.Metadata, 0, len(all))
		md.Merge(all)
	}
	return md
}

func (p *parser) array() any {
	g := p.nextGroup()
	switch g.kinds {
	case texts:
		return elements(p, g.n, p.string)
	case numbers:
		return elements(p, g.n, p.number)
	}
	return elements(p, g.n, p.value)
}

func elements[E any](p *parser, n uint32, element func() E) []E {
	list := make([]E, 0, n)
	for p.Open('[', ""); p.More(']'); {
		list = append(list, element())
	}
	return list
}

// string reads a string. It does what Text does, without checking again.
func (p *parser) string() string {
	p.Next()
	start, escapes := p.at+1, uint32(0)
	end, _ := plainText(p.text, start)
	for p.text[end] == '\\' {
		escapes = escaped
		end, _ = plainText(p.text, end+len(`\n`)) // what follows \u is plain
	}
	p.at = end + 1
	return p.Scanner.value(span{uint32(start), uint32(end) | escapes})
}

func (p *parser) number() json.Number { return json.Number(p.Number()) }

func (p *parser) nextGroup() group {
	g := p.groups[0]
	p.groups = p.groups[1:]
	return g
}
