// Package glob selects names by patterns.
package glob

import (
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
	between [][]string     // of each choice what stands between stars, if the pattern has stars and few choices alone: faster than re
}

// Match reports whether the pattern matches all of name.
func (g *Pattern) Match(name string) bool {
	if g.between != nil {
		return slices.ContainsFunc(g.between, func(one []string) bool { return matchStars(one, name) })
	}
	return g.re == nil || g.re.MatchString(name)
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

// Set parses a pattern. It is an error if the pattern is not UTF-8, or a bracket is not closed.
func (g *Pattern) Set(pattern string) error {
	if !utf8.ValidString(pattern) {
		return errors.New("the pattern is not UTF-8")
	}
	t := globTranslator{rest: pattern}
	for t.rest != "" {
		if err := t.translate(t.next()); err != nil {
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
	g.Pattern, g.re, g.between = pattern, re, nil
	if !strings.ContainsAny(pattern, `?[\`+string(utf8.RuneError)) { // which re finds in names that are not UTF-8
		for _, one := range choices(pattern, maxChoices) {
			g.between = append(g.between, strings.Split(one, "*"))
		}
	}
	return nil
}

// maxChoices bounds the patterns that one with braces stands for. Others are matched by a regular expression.
const maxChoices = 32

// choices returns the patterns without braces that a pattern stands for, whose braces are closed, or nil if there are more than most.
func choices(pattern string, most int) (all []string) {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		return []string{pattern}
	}
	depth, from, end := 1, open+1, open+1
	var members []string
	for ; depth > 0; end++ {
		c := pattern[end]
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 || depth == 1 && c == ',' {
			members = append(members, pattern[from:end])
			from = end + 1
		}
	}
	for _, m := range members {
		some := choices(pattern[:open]+m+pattern[end:], most-len(all))
		if all = append(all, some...); some == nil || len(all) > most {
			return nil
		}
	}
	return all
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

// next removes the first character of what is left of the pattern, and returns it, or "" at the end.
func (t *globTranslator) next() string {
	_, n := utf8.DecodeRuneInString(t.rest)
	s := t.rest[:n]
	t.rest = t.rest[n:]
	return s
}

// translate translates the wildcard, set, choice or character that begins with c, which next has removed. It fails if a set is
// malformed, or if the pattern ends with a backslash.
func (t *globTranslator) translate(c string) error {
	switch {
	case c == "*":
		t.out.WriteString(".*")
	case c == "?":
		t.out.WriteString(".")
	case c == "[":
		return t.translateSet()
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

// translateSet translates a set of characters, whose [ is removed. A ] that comes first is one of the characters. It fails if no ]
// ends the set, or if a range is the wrong way round.
func (t *globTranslator) translateSet() error {
	t.out.WriteString("[")
	if strings.HasPrefix(t.rest, "!") || strings.HasPrefix(t.rest, "^") {
		t.next()
		t.out.WriteString("^")
	}
	for first := true; first || !strings.HasPrefix(t.rest, "]"); first = false {
		low, err := t.nextMember()
		if err != nil {
			return err
		}
		t.out.WriteString(quoteMember(low))
		if len(t.rest) < 2 || t.rest[0] != '-' || t.rest[1] == ']' {
			continue // a - at the end is one of the characters
		}
		t.next()
		high, err := t.nextMember()
		if err != nil {
			return err
		}
		if high < low {
			return errors.New("[" + low + "-" + high + "] is the wrong way round")
		}
		t.out.WriteString("-" + quoteMember(high))
	}
	t.next()
	t.out.WriteString("]")
	return nil
}

// nextMember removes one character of a set, or a backslash and the character behind it, and returns the character. It fails
// at the end of the pattern.
func (t *globTranslator) nextMember() (c string, err error) {
	if c = t.next(); c == `\` {
		c = t.next()
	}
	if c == "" {
		err = errors.New("[ without ]")
	}
	return c, err
}

// quoteMember returns the text that stands for the character c in a set of a regular expression.
func quoteMember(c string) string {
	if strings.ContainsAny(c, `\]^-[`) {
		return `\` + c
	}
	return c
}
