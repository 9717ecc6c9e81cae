package layout

import "strings"

// check makes sure that the text is one object, and fills p.groups.
func (p *jsonParser) check() error {
	if c := p.next(); c != '{' {
		return p.unexpected("an object")
	}
	// Brackets in strings count too, which makes these a few more than needed.
	p.groups = make([]jsonGroup, 0, strings.Count(p.s, "{")+strings.Count(p.s, "["))
	if err := p.checkObject(0); err != nil {
		return err
	}
	if p.next(); p.i < len(p.s) {
		return p.errorf(p.i, ErrInvalid, "bytes after the JSON object")
	}
	p.i = 0
	return nil
}

// checkValue checks the value that stands next; depth counts the objects and arrays
// around it.
func (p *jsonParser) checkValue(depth uint64) (jsonKinds, error) {
	switch c := p.next(); {
	case c == '"':
		return jsonText, p.checkText()
	case c == '-' || isDigit(c):
		return jsonNumber, p.checkNumber()
	case c == '{':
		return jsonOther, p.checkObject(depth)
	case c == '[':
		return jsonOther, p.checkArray(depth)
	case p.skip("true"), p.skip("false"), p.skip("null"):
		return jsonOther, nil
	}
	return 0, p.unexpected("a value")
}

func (p *jsonParser) checkObject(depth uint64) error {
	at, err := p.open(depth)
	if err != nil {
		return err
	}
	var g jsonGroup
	for ; ; g.n++ {
		if more, err := p.more('}', g.n == 0); err != nil || !more {
			p.groups[at] = g
			return err
		}
		if p.next() != '"' {
			return p.unexpected("a key")
		}
		if err := p.checkText(); err != nil {
			return err
		}
		if p.next() != ':' {
			return p.unexpected("':'")
		}
		p.i++
		if _, err := p.checkValue(depth + 1); err != nil {
			return err
		}
	}
}

func (p *jsonParser) checkArray(depth uint64) error {
	at, err := p.open(depth)
	if err != nil {
		return err
	}
	var g jsonGroup
	for ; ; g.n++ {
		if more, err := p.more(']', g.n == 0); err != nil || !more {
			p.groups[at] = g
			return err
		}
		kind, err := p.checkValue(depth + 1)
		if err != nil {
			return err
		}
		g.kinds |= kind
	}
}

// open consumes an opening bracket, and is its place in p.groups.
func (p *jsonParser) open(depth uint64) (int, error) {
	if depth >= p.depth {
		return 0, p.errorf(p.i, ErrLimit, "JSON nested deeper than %d", p.depth)
	}
	p.i++
	p.groups = append(p.groups, jsonGroup{})
	return len(p.groups) - 1, nil
}

// more moves to the next member of an object or element of an array, or past its end.
// first says that none was read yet.
func (p *jsonParser) more(end byte, first bool) (bool, error) {
	switch c := p.next(); {
	case c == end:
		p.i++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		p.i++
		return true, nil
	}
	return false, p.unexpected("',' or '" + string(end) + "'")
}

func (p *jsonParser) checkText() error {
	start := p.i
	for p.i++; ; {
		p.i = plainText(p.s, p.i)
		switch {
		case p.i == len(p.s):
			return p.errorf(start, ErrInvalid, "string that does not end")
		case p.s[p.i] == '"':
			p.i++
			return nil
		case p.s[p.i] < ' ':
			return p.errorf(p.i, ErrInvalid, "control character %#02x in a string", p.s[p.i])
		}
		_, n := UnescapeJSON(p.s[p.i:])
		if n == 0 {
			return p.errorf(p.i, ErrInvalid, "invalid escape %q in a string", p.s[p.i:min(p.i+6, len(p.s))])
		}
		p.i += n
	}
}

func (p *jsonParser) checkNumber() error {
	p.skip("-")
	if !p.skip("0") && !p.digits() {
		return p.unexpected("a digit")
	}
	if p.skip(".") && !p.digits() {
		return p.unexpected("a digit")
	}
	if p.skip("e") || p.skip("E") {
		if !p.skip("+") {
			p.skip("-")
		}
		if !p.digits() {
			return p.unexpected("a digit")
		}
	}
	return nil
}

// skip consumes token where it stands next.
func (p *jsonParser) skip(token string) bool {
	if !strings.HasPrefix(p.s[p.i:], token) {
		return false
	}
	p.i += len(token)
	return true
}

// digits skips any number of digits and reports whether there was one.
func (p *jsonParser) digits() bool {
	start := p.i
	for p.i < len(p.s) && isDigit(p.s[p.i]) {
		p.i++
	}
	return p.i > start
}

func isDigit(c byte) bool { return c-'0' <= 9 }
