package layout

import (
	"encoding/json"
	"unicode/utf8"
)

// build makes values of the text, which check has found to be good. Each method expects
// its value to stand next.
func (p *jsonParser) build() (Metadata, error) {
	p.next()
	return p.object()
}

func (p *jsonParser) value() (any, error) {
	switch p.next() {
	case '"':
		return p.text(), nil
	case '{':
		return p.object()
	case '[':
		return p.array()
	case 't':
		p.i += len("true")
		return true, nil
	case 'f':
		p.i += len("false")
		return false, nil
	case 'n':
		p.i += len("null")
		return nil, nil
	}
	return p.number(), nil
}

func (p *jsonParser) object() (Metadata, error) {
	n := p.enter().n
	md := make(Metadata, 0, n)
	keys := newKeyIndex(int(n))
	for range n {
		p.next()
		at := p.i
		key := p.text()
		i, twice := keys.place(md, key)
		if twice && !p.lastWins {
			return nil, p.errorf(at, ErrDuplicate, "key %s occurs twice", Quote([]byte(key)))
		}
		p.punctuation() // the colon
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if twice {
			md[i].Value = v
		} else {
			md = append(md, Entry{key, v})
		}
		p.punctuation()
	}
	p.leave(n)
	return md, nil
}

func (p *jsonParser) array() (any, error) {
	g := p.enter()
	switch g.kinds {
	case jsonText:
		return elements(p, g.n, p.text), nil
	case jsonNumber:
		return elements(p, g.n, p.number), nil
	}
	list := make([]any, g.n)
	for i := range list {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list[i] = v
		p.punctuation()
	}
	p.leave(g.n)
	return list, nil
}

// elements are those of an array of one kind, which is not empty.
func elements[T any](p *jsonParser, n uint32, element func() T) []T {
	list := make([]T, n)
	for i := range list {
		p.next()
		list[i] = element()
		p.punctuation()
	}
	return list
}

// enter consumes an opening bracket.
func (p *jsonParser) enter() jsonGroup {
	p.i++
	g := p.groups[0]
	p.groups = p.groups[1:]
	return g
}

// leave consumes the closing bracket where no element was there to do so.
func (p *jsonParser) leave(n uint32) {
	if n == 0 {
		p.punctuation()
	}
}

// punctuation consumes a colon, a comma or a closing bracket.
func (p *jsonParser) punctuation() {
	p.next()
	p.i++
}

func (p *jsonParser) number() json.Number {
	start := p.i
	for p.i < len(p.s) && inNumber(p.s[p.i]) {
		p.i++
	}
	return json.Number(p.s[start:p.i])
}

func inNumber(c byte) bool {
	return isDigit(c) || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

// text is a part of p.s or, where the string has escapes, memory of its own.
func (p *jsonParser) text() string {
	start := p.i + 1
	end := plainText(p.s, start)
	if p.s[end] != '"' {
		return p.escapedText(start)
	}
	p.i = end + 1
	return p.s[start:end]
}

func (p *jsonParser) escapedText(i int) string {
	p.buf = p.buf[:0]
	for {
		end := plainText(p.s, i)
		p.buf = append(p.buf, p.s[i:end]...)
		if p.s[end] == '"' {
			p.i = end + 1
			return string(p.buf)
		}
		r, n := UnescapeJSON(p.s[end:])
		p.buf = utf8.AppendRune(p.buf, r)
		i = end + n
	}
}
