// Package glob selects names by patterns.
package glob

import (
	"errors"
	"fmt"
	"math/bits"
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
	states  *automaton // linear in the name's length, whatever the pattern
	between [][]string // of each choice what stands between stars, if the pattern has stars and few choices alone: faster than states
}

// Match reports whether the pattern matches all of name.
func (g *Pattern) Match(name string) bool {
	if g.between != nil {
		return slices.ContainsFunc(g.between, func(one []string) bool { return matchStars(one, name) })
	}
	return g.states == nil || g.states.match(name)
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
	if len(p.open) > 0 {
		return errors.New("{ without }")
	}
	g.Pattern, g.states, g.between = pattern, p.automaton(), nil
	if !strings.ContainsAny(pattern, `?[\`+string(utf8.RuneError)) { // which states find in names that are not UTF-8
		for _, one := range choices(pattern, maxChoices) {
			g.between = append(g.between, strings.Split(one, "*"))
		}
	}
	return nil
}

// maxChoices bounds the patterns that one with braces stands for. Others are matched by an automaton.
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

// set is a set of characters: ranges, each from its first to its last, or all but these.
type set struct {
	ranges    [][2]rune
	isOutside bool
}

// has reports whether r is in the set.
func (s *set) has(r rune) bool {
	return slices.ContainsFunc(s.ranges, func(x [2]rune) bool { return x[0] <= r && r <= x[1] }) != s.isOutside
}

// state is a place in a pattern.
type state struct {
	step  *set    // characters that lead to the next state, or nil
	jumps []int32 // later states that this one stands for too
	skips bool    // it stands for the next state too
	loops bool    // all characters lead here again
}

// parser turns a pattern into states.
type parser struct {
	rest   string
	states []state // but for the last, whose fields are those of state
	state
	open []brace
}

// brace is a { that is not closed: its state, and the last states of its choices but for the last.
type brace struct {
	at   int
	ends []int
}

// next removes the first character of what is left of the pattern, and returns it, or "" at the end.
func (p *parser) next() string {
	_, n := utf8.DecodeRuneInString(p.rest)
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// begin ends the last state, begins another, and returns the number of the one that has ended.
func (p *parser) begin() (ended int) {
	p.states = append(p.states, p.state)
	p.state = state{}
	return len(p.states) - 1
}

// parse parses the wildcard, set, choice or character that begins with c, which next has removed. It fails if a set is malformed, or
// if the pattern ends with a backslash.
func (p *parser) parse(c string) error {
	last := len(p.open) - 1
	switch {
	case c == "*":
		p.loops = true
	case c == "?":
		p.step = &set{isOutside: true}
		p.begin()
	case c == "[":
		return p.parseSet()
	case c == "{":
		p.skips = true
		p.open = append(p.open, brace{at: p.begin()})
	case c == "," && last >= 0:
		at := p.begin()
		p.open[last].ends = append(p.open[last].ends, at)
		open := &p.states[p.open[last].at]
		open.jumps = append(open.jumps, int32(at+1))
	case c == "}" && last >= 0:
		p.skips = true
		at := p.begin()
		for _, end := range p.open[last].ends {
			p.states[end].jumps = []int32{int32(at + 1)}
		}
		p.open = p.open[:last]
	case c == `\` && p.rest == "":
		return errors.New(`nothing after the last \`)
	default:
		if c == `\` {
			c = p.next()
		}
		r, _ := utf8.DecodeRuneInString(c)
		p.step = &set{ranges: [][2]rune{{r, r}}}
		p.begin()
	}
	return nil
}

// parseSet parses a set of characters, whose [ is removed. A ] that comes first is one of the characters. It fails if no ] ends the
// set, or if a range is the wrong way round.
func (p *parser) parseSet() error {
	s := &set{}
	if strings.HasPrefix(p.rest, "!") || strings.HasPrefix(p.rest, "^") {
		p.next()
		s.isOutside = true
	}
	for first := true; first || !strings.HasPrefix(p.rest, "]"); first = false {
		low, err := p.nextMember()
		if err != nil {
			return err
		}
		high := low
		if len(p.rest) >= 2 && p.rest[0] == '-' && p.rest[1] != ']' { // a - at the end is one of the characters
			p.next()
			if high, err = p.nextMember(); err != nil {
				return err
			}
		}
		if high < low {
			return fmt.Errorf("[%c-%c] is the wrong way round", low, high)
		}
		s.ranges = append(s.ranges, [2]rune{low, high})
	}
	p.next()
	p.step = s
	p.begin()
	return nil
}

// nextMember removes one character of a set, or a backslash and the character behind it, and returns the character. It fails
// at the end of the pattern.
func (p *parser) nextMember() (r rune, err error) {
	c := p.next()
	if c == `\` {
		c = p.next()
	}
	if c == "" {
		err = errors.New("[ without ]")
	}
	r, _ = utf8.DecodeRuneInString(c)
	return r, err
}

// bitset has a bit for each state of an automaton.
type bitset []uint64

func (b bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// automaton is in several states of a pattern at once. It begins in the first, and matches if it ends in the last.
type automaton struct {
	states              []state
	loops, jumps, skips bitset                // the states that have these
	ascii               [utf8.RuneSelf]bitset // the states that each of these characters leads on from
}

// automaton returns the automaton of the pattern that was parsed.
func (p *parser) automaton() *automaton {
	p.begin()
	a := &automaton{states: p.states}
	having := func(has func(*state) bool) bitset {
		b := a.none()
		for i := range a.states {
			if has(&a.states[i]) {
				b.add(i)
			}
		}
		return b
	}
	a.loops = having(func(s *state) bool { return s.loops })
	a.jumps = having(func(s *state) bool { return s.jumps != nil })
	a.skips = having(func(s *state) bool { return s.skips })
	for r := range a.ascii {
		a.ascii[r] = having(func(s *state) bool { return s.step != nil && s.step.has(rune(r)) })
	}
	return a
}

// none returns no states.
func (a *automaton) none() bitset { return make(bitset, (len(a.states)+63)/64) }

// match reports whether name leads from the first state to the last.
func (a *automaton) match(name string) bool {
	now := a.none()
	now.add(0)
	a.jump(now)
	for _, r := range name {
		carry, any := uint64(0), uint64(0)
		for i, states := range now {
			led := uint64(0)
			if r < utf8.RuneSelf {
				led = states & a.ascii[r][i]
			} else {
				led = a.led(i, states, r)
			}
			now[i] = led<<1 | carry | states&a.loops[i]
			carry = led >> 63
			any |= now[i]
		}
		if any == 0 {
			return false
		}
		a.jump(now)
	}
	return now.has(len(a.states) - 1)
}

// led returns those of the i-th 64 states that r leads on from.
func (a *automaton) led(i int, states uint64, r rune) (led uint64) {
	for ; states != 0; states &= states - 1 {
		if s := a.states[64*i+bits.TrailingZeros64(states)].step; s != nil && s.has(r) {
			led |= states & -states
		}
	}
	return led
}

// jump adds to states what they stand for too.
func (a *automaton) jump(states bitset) {
	carry := uint64(0)
	for i := range states {
		now, done := states[i]|carry, uint64(0)
		for {
			if next := now | now&a.skips[i]<<1; next != now {
				now = next
				continue
			}
			left := now & a.jumps[i] &^ done
			if left == 0 {
				break
			}
			done |= left
			states[i] = now
			for ; left != 0; left &= left - 1 {
				for _, to := range a.states[64*i+bits.TrailingZeros64(left)].jumps {
					states.add(int(to))
				}
			}
			now = states[i]
		}
		states[i], carry = now, now&a.skips[i]>>63
	}
}
