// Package glob selects names by patterns.
package glob

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern selects whole names by a pattern: * any characters, ? one,
// [a-z] and [!a-z] one of a set or outside of it, {a,b} either, \ the next one as it is.
// Unlike those of path.Match, its wildcards match slashes: to tensors they are letters
// like any other. Case counts. The zero value matches everything.
type Pattern struct {
	Pattern string
	between []string       // what stands between stars, if the pattern has no other wildcards: faster than regexp
	regexp  *regexp.Regexp // linear in the name's length, whatever the pattern
}

// Match reports whether the pattern matches all of name.
func (g *Pattern) Match(name string) bool {
	if g.between != nil {
		return matchStars(g.between, name)
	}
	return g.regexp == nil || g.regexp.MatchString(name)
}

// matchStars reports whether name begins with the first of the texts between and ends with the last. The other texts must come in
// this order between the two. A single text must be equal to name.
func matchStars(between []string, name string) bool {
	last := len(between) - 1
	if last == 0 {
		return name == between[0]
	}
	name, ok := strings.CutPrefix(name, between[0])
	for _, text := range between[1:last] {
		var found bool
		_, name, found = strings.Cut(name, text)
		ok = ok && found
	}
	return ok && strings.HasSuffix(name, between[last])
}

// MaxBytes bounds a pattern. A name takes time by its length and that of the pattern.
const MaxBytes = 4 << 10

// Set parses a pattern. It is an error if the pattern is not UTF-8 or has more than MaxBytes, or if a bracket is not closed.
func (g *Pattern) Set(pattern string) error {
	switch {
	case !utf8.ValidString(pattern):
		return errors.New("the pattern is not UTF-8")
	case len(pattern) > MaxBytes:
		return fmt.Errorf("the pattern has more than %d bytes", MaxBytes)
	}
	p := parser{rest: pattern}
	for p.rest != "" {
		if err := p.parse(p.next()); err != nil {
			return err
		}
	}
	if p.depth > 0 {
		return errors.New("{ without }")
	}
	compiled, err := regexp.Compile(`(?s)\A` + p.expression.String() + `\z`)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		var low, high rune
		if n, _ := fmt.Sscanf(bad.Expr, memberFormat+"-"+memberFormat, &low, &high); n == 2 {
			return fmt.Errorf("[%c-%c] is the wrong way round", low, high)
		}
		return errors.New(bad.Code.String()) // too many braces in each other
	}
	g.Pattern, g.regexp, g.between = pattern, compiled, nil
	if !strings.ContainsAny(pattern, `?[{\`) {
		g.between = strings.Split(pattern, "*")
	}
	return nil
}

// Patterns has the values of a flag that may be given more than once. The zero value matches nothing.
type Patterns []Pattern

// Match reports whether one of the patterns matches all of name.
func (g *Patterns) Match(name string) bool {
	return slices.ContainsFunc(*g, func(one Pattern) bool { return one.Match(name) })
}

// Set adds a pattern.
func (g *Patterns) Set(pattern string) error {
	var one Pattern
	if err := one.Set(pattern); err != nil {
		return err
	}
	*g = append(*g, one)
	return nil
}

// parser turns a pattern into a regular expression.
type parser struct {
	rest       string
	expression strings.Builder
	depth      int // of open braces
}

// next removes the first character of what is left of the pattern, and returns it, or "" at the end.
func (p *parser) next() string {
	_, n := utf8.DecodeRuneInString(p.rest)
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// parse parses the wildcard, set, choice or character that begins with c, which next has removed. It fails if a set is malformed, or
// if the pattern ends with a backslash.
func (p *parser) parse(c string) error {
	expression := regexp.QuoteMeta(c)
	switch {
	case c == "*":
		expression = ".*"
	case c == "?":
		expression = "."
	case c == "[":
		return p.parseSet()
	case c == "{":
		expression = "(?:"
		p.depth++
	case c == "," && p.depth > 0:
		expression = "|"
	case c == "}" && p.depth > 0:
		expression = ")"
		p.depth--
	case c == `\` && p.rest == "":
		return errors.New(`nothing after the last \`)
	case c == `\`:
		expression = regexp.QuoteMeta(p.next())
	}
	p.expression.WriteString(expression)
	return nil
}

// memberFormat writes a character of a set for a regular expression.
const memberFormat = `\x{%x}`

// parseSet parses a set of characters, whose [ is removed. A ] that comes first is one of the characters. It fails if no ] ends the set.
func (p *parser) parseSet() error {
	p.expression.WriteString("[")
	if strings.HasPrefix(p.rest, "!") || strings.HasPrefix(p.rest, "^") {
		p.next()
		p.expression.WriteString("^")
	}
	for first := true; first || !strings.HasPrefix(p.rest, "]"); first = false {
		c := p.next()
		if c == "-" { // of a range, or a character at either end: as in a regular expression
			p.expression.WriteString(c)
			continue
		}
		if c == `\` {
			c = p.next()
		}
		if c == "" {
			return errors.New("[ without ]")
		}
		r, _ := utf8.DecodeRuneInString(c)
		fmt.Fprintf(&p.expression, memberFormat, r)
	}
	p.expression.WriteString(p.next())
	return nil
}
