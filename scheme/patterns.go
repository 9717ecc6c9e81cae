package scheme

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"

	"github.com/tensormap/tensormap/layout"
)

// Bounds of all regular expressions of a configuration together. Real ones have a dozen, of a hundred instructions and a dozen
// places each. An instruction takes memory, and a place ten nanoseconds for each byte of a name. SECURITY.md states them.
const (
	mostPatterns     = 64
	mostPatternBytes = 1 << 14
	mostInstructions = 1 << 13
	mostPlaces       = 1 << 9
)

// patterns counts what the regular expressions of a configuration take.
type patterns struct {
	n, bytes, instructions, places int
}

// names reports whether g names the layer itself, rather than layers of its class.
func (g *group) names(layer []byte) bool {
	return g.exact[string(layer)] || slices.ContainsFunc(g.patterns, func(p *regexp.Regexp) bool { return p.Match(layer) })
}

// compile returns a regular expression that matches as Python's match does, from the start of the name.
func (c *patterns) compile(text string) (*regexp.Regexp, error) {
	switch c.n, c.bytes = c.n+1, c.bytes+len(text); {
	case c.n > mostPatterns:
		return nil, unsupported("the configuration has more than %d regular expressions of layers", mostPatterns)
	case c.bytes > mostPatternBytes:
		return nil, unsupported("the configuration has more than %d bytes of regular expressions", mostPatternBytes)
	}
	anchored := "^(?:" + text + ")"
	tree, err := syntax.Parse(anchored, syntax.Perl)
	if err != nil {
		return nil, unsupported("the configuration's regular expression %s is none of RE2's syntax: which layers it names is not known", layout.Quote([]byte(text)))
	}
	if c.instructions += written(tree); c.instructions > mostInstructions {
		return nil, unsupported("the configuration's regular expressions have more than %d instructions", mostInstructions)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if c.places += places(program); c.places > mostPlaces {
		return nil, unsupported("the configuration's regular expressions match at more than %d places at once", mostPlaces)
	}
	return regexp.Compile(anchored)
}

// written returns the size of a regular expression whose repetitions are written out.
func written(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)/2
	for _, sub := range tree.Sub {
		n += written(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(1, tree.Min, tree.Max) // 1000 at most, that of nested ones too
	}
	return n
}

// places returns how many places of a program a matcher may be at after a character: all that take this one. Those beyond
// ASCII count as one. A program without branches is at one.
func places(program *syntax.Prog) int {
	var takes [unicode.MaxASCII + 2]int
	branches := 1
	for i := range program.Inst {
		switch in := &program.Inst[i]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			branches++
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			for r := range rune(unicode.MaxASCII + 1) {
				if in.MatchRune(r) {
					takes[r]++
				}
			}
			if n := len(in.Rune); n == 0 || n == 1 || in.Rune[n-1] > unicode.MaxASCII {
				takes[unicode.MaxASCII+1]++ // a single one may be in another case
			}
		}
	}
	if branches == 1 {
		return 1
	}
	return branches + slices.Max(takes[:])
}
