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
// Unlike the wildcards of path.Match, its wildcards match slashes: to tensors they are letters
// like any other. Case counts. The zero value matches everything.
type Pattern struct {
	Pattern string
	match   func(name string) bool // takes time linear in the name's length, whatever the pattern; nil for the zero value
}

// Match reports whether the pattern matches all of name.
func (g *Pattern) Match(name string) bool { return g.match == nil || g.match(name) }

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

// MaxBytes bounds a pattern. A name takes time by its length and the length of the pattern.
const MaxBytes = 4 << 10

// Set parses a pattern. It is an error if the pattern is not UTF-8 or has more than MaxBytes, or if a bracket is not closed.
func (g *Pattern) Set(pattern string) error {
	switch {
	case !utf8.ValidString(pattern):
		return errors.New("the pattern is not UTF-8")
	case len(pattern) > MaxBytes:
		return fmt.Errorf("the pattern has more than %d bytes", MaxBytes)
	}
	expression, err := expressionOf(pattern)
	if err != nil {
		return err
	}
	compiled, err := regexp.Compile(`(?s)\A` + expression + `\z`)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		var low, high rune
		if n, _ := fmt.Sscanf(bad.Expr, memberFormat+"-"+memberFormat, &low, &high); n == 2 {
			return fmt.Errorf("[%c-%c] is the wrong way round", low, high)
		}
		return errors.New(bad.Code.String()) // too many braces in each other
	}
	g.Pattern, g.match = pattern, compiled.MatchString
	if !strings.ContainsAny(pattern, `?[{\`) { // 30 times as fast as regexp
		between := strings.Split(pattern, "*")
		g.match = func(name string) bool { return matchStars(between, name) }
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

// memberFormat writes a character of a set for a regular expression.
const memberFormat = `\x{%x}`

// expressionOf returns the regular expression that a pattern stands for. It fails if a set or a choice is not closed, or if the pattern ends
// with a backslash.
func expressionOf(pattern string) (string, error) {
	var b strings.Builder
	depth := 0 // of open braces
	for rest := []rune(pattern); len(rest) > 0; {
		c := rest[0]
		rest = rest[1:]
		switch {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteByte('.')
		case c == '[':
			n, err := writeSet(&b, rest)
			if err != nil {
				return "", err
			}
			rest = rest[n:]
		case c == '{':
			b.WriteString("(?:")
			depth++
		case c == ',' && depth > 0:
			b.WriteByte('|')
		case c == '}' && depth > 0:
			b.WriteByte(')')
			depth--
		case c == '\\' && len(rest) == 0:
			return "", errors.New(`nothing after the last \`)
		case c == '\\':
			b.WriteString(regexp.QuoteMeta(string(rest[0])))
			rest = rest[1:]
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	if depth > 0 {
		return "", errors.New("{ without }")
	}
	return b.String(), nil
}

// writeSet writes a set of characters as a regular expression. The set stands at the beginning of text, without its [, and has n characters.
// A ] that comes first is one of the set. It fails if no ] ends the set.
func writeSet(b *strings.Builder, text []rune) (n int, err error) {
	b.WriteByte('[')
	if len(text) > 0 && (text[0] == '!' || text[0] == '^') {
		b.WriteByte('^')
		n++
	}
	for first := n; n < len(text); n++ {
		switch c := text[n]; {
		case c == ']' && n > first:
			b.WriteByte(']')
			return n + 1, nil
		case c == '-': // of a range, or a character at either end: as in a regular expression
			b.WriteByte('-')
			continue
		case c == '\\' && n+1 < len(text):
			n++
		}
		fmt.Fprintf(b, memberFormat, text[n])
	}
	return 0, errors.New("[ without ]")
}
