package jsontext

import (
	"encoding/json"
	"iter"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// Parse reads an object, keeping the order of keys and every digit of numbers. at is the offset
// of text in its file, of format f, and field its name there, both for errors. A key that occurs
// twice in one object is an error at its opening quote.
//
// The text is copied once. Keys, strings without escapes, numbers and arrays are parts of the copy,
// which lives as long as one of them. An array is a [layout.List], whose elements are made as they are asked for.
//
// Objects are made at once, and a member takes up to 56 bytes. More members of all objects than 65,536 and one for every 20
// bytes of the text are layout.ErrLimit. So are more of the outermost object, which converting copies, than 16,384 and one
// for every 96 bytes. No writer comes near that, not even with a vocabulary of a million tokens.
func Parse[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return parseObject(text, f, at, field, lim, false, false)
}

// ParsePython reads an object as Parse does, but a value may be NaN, Infinity or -Infinity, as Python's json writes floats.
// It becomes the string that [layout.Metadata.MarshalJSON] writes for such a float.
func ParsePython[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return parseObject(text, f, at, field, lim, false, true)
}

// ParseLastWins reads an object as Parse does, but a key may occur twice. The last value counts,
// in the place of the first.
func ParseLastWins[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (layout.Metadata, error) {
	return parseObject(text, f, at, field, lim, true, false)
}

// ParseValue reads any value as Parse reads an object, but if it is one, it may have as many members as one within.
func ParseValue[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (any, error) {
	p, err := newParser(text, f, at, field, lim)
	if err != nil {
		return nil, err
	}
	p.skip()
	if p.End(); p.err != nil {
		return nil, p.err
	}
	p.at = 0
	return p.value(), nil
}

// Check returns the error that Parse would.
func Check[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) error {
	s := New(text, f, at, field, lim)
	s.groups = []extent{}
	return s.checkObject()
}

func parseObject[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits, lastWins, python bool) (layout.Metadata, error) {
	p, err := newParser(text, f, at, field, lim)
	if err != nil {
		return nil, err
	}
	p.lastWins, p.python = lastWins, python
	if err := p.checkObject(); err != nil {
		return nil, err
	}
	p.at, p.keys = 0, nil // which takes memory no longer
	if p.Next(); p.empty() {
		return layout.Metadata{}, nil
	}
	return p.object(), nil
}

// newParser copies the text before it is looked at: it may be mapped, and change.
func newParser[T string | []byte](text T, f layout.Format, at uint64, field string, lim layout.Limits) (*parser, error) {
	if s := New(text, f, at, field, lim); s.err != nil {
		return nil, s.err
	}
	p := &parser{New(string(text), f, at, field, lim)}
	p.groups = []extent{}
	return p, nil
}

// checkObject checks that all of the text is one object.
func (s *Scanner[T]) checkObject() error {
	if s.err == nil && s.Next() != '{' {
		s.Unexpected("an object")
	}
	s.object = true
	s.skipGroup('{')
	s.End()
	return s.Err()
}

// bound fails if values are to be made, and g is a group of too many members for the size of the text.
func (s *Scanner[T]) bound(g group, outermost bool) {
	n := uint32(0)
	if outermost {
		n = g.n
	}
	if s.groups != nil && !s.checked {
		s.holds(g.members, n, uint64(len(s.text)))
	}
}

// holds fails if a text of so many bytes has too many members, be it those of the outermost object.
func (s *Scanner[T]) holds(members, outermost uint32, size uint64) {
	if tooDense(members, outermost, size) {
		s.Fail(s.base, layout.ErrLimit, "more than %d keys in %d bytes of JSON: too many for its size", members, size)
	}
}

// memberBytes is how many bytes of a text there are for a member of its objects, at least.
const memberBytes = 20

// tooDense reports whether these members are too many for a text of so many bytes, be it those of the outermost object.
func tooDense(members, outermost uint32, size uint64) bool {
	const few, each = 1 << 14, 96 // of the outermost, where real files have dozens
	return layout.TooDense(uint64(members), size, memberBytes) || uint64(outermost) > few+size/each
}

// parser makes values of a text that was checked. p.groups are the groups that are still to come.
type parser struct{ Scanner[string] }

func (p *parser) value() any {
	switch p.Next() {
	case '"':
		return p.string()
	case '{':
		if p.empty() {
			return noMembers
		}
		return p.object()
	case '[':
		start := p.at
		if !p.empty() {
			return p.array()
		}
		if text := p.text[start:p.at]; text != noElements.(array).text {
			return array{text: text}
		}
		return noElements
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
	if text, ok := p.notFinite(); ok {
		return text
	}
	return json.Number(p.Number())
}

// One value stands for all that are empty, which take no memory each then.
var noMembers, noElements any = layout.Metadata{}, array{text: "[]"}

// empty passes the object or array that begins here, if nothing is in it. The scanner keeps no group of those.
func (p *parser) empty() bool {
	start := p.at
	p.at++
	if c := p.Next(); c != '}' && c != ']' {
		p.at = start
		return false
	}
	p.at++
	return true
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
	if g.end >= repeats {
		all := md
		md = make(layout.Metadata, 0, len(all))
		md.Merge(all)
	}
	return md
}

// array is a [layout.List].
type array struct {
	text string // from bracket to bracket
	n    int
}

func (p *parser) array() array {
	g, start := p.nextGroup(), p.at
	p.at = int(g.end &^ repeats)
	l := array{p.text[start:p.at], int(g.n)}
	if g.end >= repeats {
		l.text = l.distinct()
	}
	return l
}

// distinct returns the text with the keys that last win, and with strings for numbers that JSON does not have.
func (l array) distinct() string {
	b := []byte{'['}
	for e := range l.All() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = layout.AppendJSON(b, e) // which was read
	}
	return string(append(b, ']'))
}

// Len returns the number of elements.
func (l array) Len() int { return l.n }

// String returns the text.
func (l array) String() string { return l.text }

// MarshalJSON encodes the list as [layout.Metadata.MarshalJSON] does.
func (l array) MarshalJSON() ([]byte, error) { return layout.EncodeJSON(l) }

// All yields the elements.
func (l array) All() iter.Seq[any] {
	return func(yield func(any) bool) {
		p := parser{Scanner[string]{text: l.text, most: math.MaxUint64, lastWins: true, python: true, checked: true, groups: []extent{}}}
		for p.Open('[', ""); p.More(']') && yield(p.element()); {
		}
	}
}

// element makes a value whose groups are not known.
func (p *parser) element() any {
	if c := p.Next(); c == '{' || c == '[' {
		at := p.at
		p.groups = p.groups[:0]
		p.skipGroup(c)
		p.at = at
	}
	return p.value()
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

func (p *parser) nextGroup() extent {
	g := p.groups[0]
	p.groups = p.groups[1:]
	return g
}
