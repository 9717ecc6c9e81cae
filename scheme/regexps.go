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
	maxPatterns     = 64
	maxPatternBytes = 1 << 14
	maxInstructions = 1 << 13
	maxPlaces       = 1 << 9
)

// regexps counts what the regular expressions of a configuration take.
type regexps struct {
	count, bytes, instructions, places int
}

// compile returns a regular expression that matches from the start of a name, as Python's re.match does. c adds up the number,
// bytes, instructions and places of all expressions of the configuration. It fails if one of the sums exceeds its bound, or if
// RE2 does not know the syntax.
func (c *regexps) compile(text string) (*regexp.Regexp, error) {
	switch c.count, c.bytes = c.count+1, c.bytes+len(text); {
	case c.count > maxPatterns:
		return nil, unsupportedf("the configuration has more than %d regular expressions of layers", maxPatterns)
	case c.bytes > maxPatternBytes:
		return nil, unsupportedf("the configuration has more than %d bytes of regular expressions", maxPatternBytes)
	}
	anchored := "^(?:" + text + ")"
	tree, err := syntax.Parse(anchored, syntax.Perl)
	if err != nil {
		return nil, unsupportedf("the configuration's regular expression %s is none of RE2's syntax: which layers it names is not known", layout.Quote(text))
	}
	if c.instructions += countWrittenOut(tree); c.instructions > maxInstructions {
		return nil, unsupportedf("the configuration's regular expressions have more than %d instructions", maxInstructions)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if c.places += maxPlacesOf(program); c.places > maxPlaces {
		return nil, unsupportedf("the configuration's regular expressions match at more than %d places at once", maxPlaces)
	}
	return regexp.Compile(anchored)
}

// countWrittenOut returns an estimate of the instructions of an expression whose repetitions are written out: a{3} as aaa.
func countWrittenOut(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)/2 // a range of characters is two
	for _, sub := range tree.Sub {
		n += countWrittenOut(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(1, tree.Min, tree.Max) // syntax.Parse allows 1000 at most, nested ones multiplied
	}
	return n
}

// maxPlacesOf returns a bound of how many instructions of a program a matcher may be at together. For each character it
// counts the instructions that can take the character. All characters beyond ASCII count as one character. The result is the
// largest count, plus the number of branches, plus 1. For a program without branches it returns 1.
func maxPlacesOf(program *syntax.Prog) int {
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
			// Without runes an instruction takes any character. A single rune may match in another case. Otherwise runes are ranges, the greatest last.
			if n := len(in.Rune); n <= 1 || in.Rune[n-1] > unicode.MaxASCII {
				takes[unicode.MaxASCII+1]++
			}
		}
	}
	if branches == 1 {
		return 1
	}
	return branches + slices.Max(takes[:])
}
