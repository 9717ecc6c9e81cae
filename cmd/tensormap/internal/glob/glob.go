// Package glob selects names by patterns.
package glob

import (
	_ "embed"
	"errors"
	"regexp"
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
	re      *regexp.Regexp // linear in the name's length, whatever the pattern
}

// Match reports whether the pattern matches all of name.
func (g *Pattern) Match(name string) bool { return g.re == nil || g.re.MatchString(name) }

// Set parses a pattern. It is an error if the pattern is not UTF-8, or a bracket is not closed.
func (g *Pattern) Set(pattern string) error {
	if !utf8.ValidString(pattern) {
		return errors.New("the pattern is not UTF-8")
	}
	t := globTranslator{rest: pattern}
	for t.rest != "" {
		if err := t.step(t.next()); err != nil {
			return err
		}
	}
	if t.depth > 0 {
		return errors.New("{ without }")
	}
	re, err := regexp.Compile(`(?s)\A(?:` + t.out.String() + `)\z`)
	if err != nil {
		return errors.New("the pattern is too large")
	}
	g.Pattern, g.re = pattern, re
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

// globTranslator turns a glob into a regular expression.
type globTranslator struct {
	rest  string
	out   strings.Builder
	depth int // of braces
}

// next removes the first character of what is left of the pattern, and returns it.
func (t *globTranslator) next() string {
	_, n := utf8.DecodeRuneInString(t.rest)
	s := t.rest[:n]
	t.rest = t.rest[n:]
	return s
}

// step translates what the character c begins, which next has removed.
func (t *globTranslator) step(c string) error {
	switch {
	case c == "*":
		t.out.WriteString(".*")
	case c == "?":
		t.out.WriteString(".")
	case c == "[":
		return t.set()
	case c == "{":
		t.depth++
		t.out.WriteString("(?:")
	case c == "," && t.depth > 0:
		t.out.WriteString("|")
	case c == "}" && t.depth > 0:
		t.depth--
		t.out.WriteString(")")
	case c == `\` && t.rest == "":
		return errors.New(`nothing after the last \`)
	case c == `\`:
		t.out.WriteString(regexp.QuoteMeta(t.next()))
	default:
		t.out.WriteString(regexp.QuoteMeta(c))
	}
	return nil
}

// set translates a set of characters after its [. A ] that comes first is one of the characters.
func (t *globTranslator) set() error {
	t.out.WriteString("[")
	if strings.HasPrefix(t.rest, "!") || strings.HasPrefix(t.rest, "^") {
		t.next()
		t.out.WriteString("^")
	}
	for first := true; ; first = false {
		low, end, err := t.member(first)
		if err != nil {
			return err
		}
		if end {
			t.out.WriteString("]")
			return nil
		}
		t.out.WriteString(quoteMember(low))
		if len(t.rest) < 2 || t.rest[0] != '-' || t.rest[1] == ']' {
			continue // a - at the end is one of the characters
		}
		t.next()
		high, _, err := t.member(true)
		if err != nil {
			return err
		}
		if high < low {
			return errors.New("[" + low + "-" + high + "] is the wrong way round")
		}
		t.out.WriteString("-" + quoteMember(high))
	}
}

// member removes one character of a set, and returns it. end is true for the ] that closes the set.
func (t *globTranslator) member(first bool) (c string, end bool, err error) {
	if t.rest == "" {
		return "", false, errors.New("[ without ]")
	}
	c = t.next()
	if c == `\` {
		if t.rest == "" {
			return "", false, errors.New("[ without ]")
		}
		return t.next(), false, nil
	}
	return c, c == "]" && !first, nil
}

// quoteMember returns the text that stands for c inside of [].
func quoteMember(c string) string {
	if strings.ContainsAny(c, `\]^-[`) {
		return `\` + c
	}
	return c
}

// JavaScript defines compileGlob(pattern) in JavaScript: it matches as glob does.
//
//go:embed page.js
var JavaScript string
