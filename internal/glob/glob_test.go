package glob

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// globTests are patterns with names that each matches, and names that it does not.
var globTests = []struct {
	pattern  string
	yes, not []string
}{
	{"*", []string{"", "a", "a.b/c", "a\nb"}, nil},
	{"a", []string{"a"}, []string{"", "aa", "A", "ba"}},
	{"a.b", []string{"a.b"}, []string{"axb"}},
	{"*.weight", []string{".weight", "a.weight", "a/b.c.weight"}, []string{"a.weights", "weight"}},
	{"layer.*.bias", []string{"layer.0.bias", "layer.0.self/query.bias"}, []string{"layer.bias"}},
	{"?", []string{"a", "/", "重", "\n"}, []string{"", "ab"}},
	{"layer.[0-3].*", []string{"layer.0.x", "layer.3."}, []string{"layer.4.x", "layer.12.x"}},
	{"[!0-9]*", []string{"a1", "-"}, []string{"1a", ""}},
	{"[^ab]", []string{"c", "^"}, []string{"a", "b"}},
	{"[]a]", []string{"]", "a"}, []string{"b"}},
	{"[!]a]", []string{"b"}, []string{"]", "a"}},
	{"[a-]", []string{"a", "-"}, []string{"b"}},
	{"[-a]", []string{"a", "-"}, []string{"b"}},
	{`[\]\\]`, []string{"]", `\`}, []string{"a"}},
	{`[[:alpha:]]`, []string{"[]", ":]", "a]"}, []string{"a", "b]"}},
	{"[&&~]", []string{"&", "~"}, []string{"a"}},
	{"[α-ω]", []string{"β"}, []string{"b"}},
	{"{a,b}", []string{"a", "b"}, []string{"c", "a,b", "{a,b}"}},
	{"x.{weight,bias,}", []string{"x.weight", "x.bias", "x."}, []string{"x"}},
	{"{a,b{c,d}}e", []string{"ae", "bce", "bde"}, []string{"be", "ace"}},
	{"a,b", []string{"a,b"}, []string{"a", "b"}},
	{"a}", []string{"a}"}, []string{"a"}},
	{`\*\?\[\{\\`, []string{`*?[{\`}, []string{`\*`, "a"}},
	{`\d\n`, []string{"dn"}, []string{"1\n"}},
	{"(a|b)+$", []string{"(a|b)+$"}, []string{"a", "ab"}},
	{"a|b", []string{"a|b"}, []string{"a", "b"}},
}

// badGlobs are no patterns.
var badGlobs = []string{"[", "[a", "[]", "[!]", "[a-", `[a\`, `a\`, "{", "{a,{b}", "[b-a]"}

func TestGlob(t *testing.T) {
	for _, test := range globTests {
		var g Pattern
		if err := g.Set(test.pattern); err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, name := range test.yes {
			if !g.Match(name) {
				t.Errorf("%s does not match %q", test.pattern, name)
			}
		}
		for _, name := range test.not {
			if g.Match(name) {
				t.Errorf("%s matches %q", test.pattern, name)
			}
		}
	}
	for _, pattern := range badGlobs {
		if err := new(Pattern).Set(pattern); err == nil {
			t.Errorf("%s is no error", pattern)
		}
	}
	if !(&Pattern{}).Match("anything") {
		t.Error("no pattern does not match everything")
	}
}

// wildcards matches * and ? by trying everything.
func wildcards(pattern, name []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == '*':
		return wildcards(pattern[1:], name) || len(name) > 0 && wildcards(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	return (pattern[0] == '?' || pattern[0] == name[0]) && wildcards(pattern[1:], name[1:])
}

// FuzzGlob wants no panic of any pattern, and of patterns without sets, braces and
// escapes what a matcher that knows no better finds.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"*a?", "bab"}, {"[a-", "a"}, {"{a,[}]}", "}"}, {`\`, ""}, {"a**b", "a.b"}, {"[\xff-a]", "\xff"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		var g Pattern
		if err := g.Set(pattern); err != nil {
			return
		}
		got := g.Match(name)
		stars := 0
		for _, r := range pattern {
			switch r {
			case '[', '{', '\\':
				return
			case '*':
				stars++
			}
		}
		if stars > 3 || len(name) > 20 || !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return
		}
		if want := wildcards([]rune(pattern), []rune(name)); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	})
}

// TestStars holds patterns of stars alone to the regular expressions that they stand for.
func TestStars(t *testing.T) {
	var texts []string
	for n := range 3 * 3 * 3 * 3 * 3 {
		text := ""
		for ; n > 0; n /= 3 {
			text += []string{"", "a", "*"}[n%3]
		}
		texts = append(texts, text, strings.ReplaceAll(text, "a", "ab"))
	}
	for _, pattern := range texts {
		var g, compiled Pattern
		if err := errors.Join(g.Set(pattern), compiled.Set("{"+pattern+"}")); err != nil { // braces are left to regexp
			t.Fatal(err)
		}
		for _, name := range texts {
			name = strings.ReplaceAll(name, "*", "b")
			if got, want := g.Match(name), compiled.Match(name); got != want {
				t.Fatalf("%q matches %q: %v instead of %v", pattern, name, got, want)
			}
		}
	}
}

// TestBounds has patterns that are too long or too deep, and the longest on names as long.
func TestBounds(t *testing.T) {
	for _, pattern := range []string{strings.Repeat("a", MaxBytes+1), strings.Repeat("{a,b", 800) + strings.Repeat("}", 800)} {
		if err := new(Pattern).Set(pattern); err == nil {
			t.Errorf("%.10s… is no error", pattern)
		}
	}
	for _, one := range []string{"*{a,b}", "*a?", "{*,a}"} {
		var g Pattern
		if err := g.Set(strings.Repeat(one, (MaxBytes-1)/len(one)) + "c"); err != nil {
			t.Fatal(err)
		}
		if g.Match(strings.Repeat("ab", 100)) {
			t.Errorf("%s… matches", one)
		}
	}
}
