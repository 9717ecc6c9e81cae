package grid

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// placedWord is a word of a name, and where it stands there.
type placedWord struct {
	word     string // in lower case; numbers without leading zeros
	from, to int
}

// class tells letters, digits and what separates words apart.
func class(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return 1
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= 0x80:
		return 2
	}
	return 0
}

// placedWords yields the words of a text: what stands between dots, underscores and the like, letters and digits apart.
func placedWords(text string) iter.Seq[placedWord] {
	return func(yield func(placedWord) bool) {
		for from := 0; from < len(text); {
			kind, to := class(text[from]), from+1
			for to < len(text) && class(text[to]) == kind {
				to++
			}
			if kind != 0 && !yield(placedWord{canonical(text[from:to]), from, to}) {
				return
			}
			from = to
		}
	}
}

// canonical returns a word in lower case, and a number without leading zeros.
func canonical(word string) string {
	if class(word[0]) == 1 {
		if word = strings.TrimLeft(word, "0"); word == "" {
			return "0"
		}
		return word
	}
	return strings.ToLower(word)
}

// term is one of the conditions of a search.
type term struct {
	words []string // which stand side by side in a name
	// number is the number of a layer or an expert, if isLayer or isExpert is set. words are a word for them, and the number.
	number            int
	isLayer, isExpert bool
	// isBeginning is set of a single word that no name has: it stands for words that begin so.
	isBeginning bool
	numbers     []int // of words, that a layer or an expert of a role must have
}

// maxPhrase bounds the words of a term. Others are ignored.
const maxPhrase = 32

// terms takes a search apart. A word for layers or experts and a number behind it are one term.
func (x *Index) terms(search string) (all []term) {
	fields := strings.FieldsFunc(search, unicode.IsSpace)
	for i := 0; i < len(fields); i++ {
		t := term{}
		for s := range placedWords(fields[i]) {
			if t.words = append(t.words, s.word); len(t.words) == maxPhrase {
				break
			}
		}
		if len(t.words) == 1 && i+1 < len(fields) && isNumbered(t.words[0]) {
			if n, ok := number(fields[i+1]); ok {
				t.words = append(t.words, fmt.Sprint(n))
				i++
			}
		}
		if len(t.words) == 2 && isNumbered(t.words[0]) {
			if n, ok := number(t.words[1]); ok {
				t.number, t.isExpert = n, isExpertWord(t.words[0])
				t.isLayer = !t.isExpert
			}
		}
		if len(t.words) > 0 {
			t.isBeginning = !x.words[t.words[0]] && class(t.words[0][0]) != 1
			all = append(all, t)
		}
	}
	return all
}

// isNumbered reports whether word, in a search, makes the number behind it the number of a layer or an expert.
func isNumbered(word string) bool { return isLayerWord(word) || isExpertWord(word) }

// search returns which tensors match all terms, and how many they are. Once ctx ends, it finds no more.
func (x *Index) search(ctx context.Context, all []term) (found []bool, n int) {
	found = make([]bool, len(x.Rows))
	keep := func(number int) {
		found[number] = true
		n++
	}
	for _, r := range x.roles {
		open, fits := r.open(x, all)
		for i, m := range r.members {
			if ended(ctx, i) {
				return found, n
			}
			if fits && !slices.ContainsFunc(open, func(t term) bool { return !x.hasNumbers(m, &t) }) {
				keep(m.number)
			}
		}
	}
	for i, number := range x.Outside {
		if ended(ctx, i) {
			return found, n
		}
		if !slices.Contains(matchedIn([]string{x.Rows[number].Name, x.Rows[number].Part}, all), false) {
			keep(number)
		}
	}
	return found, n
}

// open returns the terms that each member of r matches or not by its layer and expert, with their numbers. It returns
// false if none of the members matches all terms.
func (r *role) open(x *Index, all []term) (open []term, fits bool) {
	texts := r.texts(x)
	inTexts := matchedIn(texts, all)
	for i, t := range all {
		if inTexts[i] {
			continue
		}
		if !t.isLayer && !t.isExpert {
			ones := make([]term, len(t.words))
			for k := range ones {
				ones[k].words = t.words[k : k+1]
			}
			for k, isIn := range matchedIn(texts, ones) {
				if isIn {
					continue
				}
				n, ok := number(t.words[k])
				if !ok {
					return nil, false
				}
				t.numbers = append(t.numbers, n)
			}
			if len(t.numbers) == 0 {
				return nil, false
			}
		}
		open = append(open, t)
	}
	return open, true
}

// hasNumbers reports whether a member matches t, which its role has left open.
func (x *Index) hasNumbers(m member, t *term) bool {
	switch {
	case t.isLayer:
		return m.layer == t.number
	case t.isExpert:
		return m.expert == t.number
	}
	for _, n := range t.numbers {
		if n != m.layer && n != m.expert {
			return false
		}
	}
	return len(t.words) == 1 || matchedIn([]string{x.Rows[m.number].Name}, []term{*t})[0]
}

// texts returns what names of r have in common, and what r is called in general.
func (r *role) texts(x *Index) []string {
	return []string{x.stacks[r.stack], r.before, r.after, r.common(), r.kind.part}
}

// matchedIn reports of each term whether one of some texts matches it.
func matchedIn(texts []string, all []term) []bool {
	is, left := make([]bool, len(all)), len(all)
	for _, text := range texts {
		for i := range matchesOf(text, all) {
			if !is[i] {
				is[i] = true
				left--
			}
			if left == 0 {
				return is
			}
		}
	}
	return is
}

// newWords returns the words of all names that have letters, and of what roles are called in general.
func newWords(x *Index) map[string]bool {
	var texts []string
	for _, r := range x.roles {
		texts = append(texts, r.texts(x)...)
	}
	for _, number := range x.Outside {
		texts = append(texts, x.Rows[number].Name, x.Rows[number].Part)
	}
	words := make(map[string]bool)
	for _, text := range texts {
		for s := range placedWords(text) {
			words[s.word] = true
		}
	}
	return words
}

// Saved returns what a page without Go searches and sorts a tensor by. stats is as for List.
func (x *Index) Saved(number int, stats []*answer.TensorStat) answer.SavedRow {
	row := x.Rows[number]
	state := stateOf(statOf(stats, number))
	return answer.SavedRow{TensorRow: row, Words: x.savedWords(&row), Rank: int(x.nameRanks()[number]), State: int(state)}
}

// savedWords returns the Words of a SavedRow.
func (x *Index) savedWords(row *answer.TensorRow) string {
	texts := []string{row.Name, row.Part}
	add := func(word, number string) {
		if text := word + " " + number; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if r := x.roleOf[row.Number]; r >= 0 {
		texts = append(texts, x.roles[r].common())
		add("layer", fmt.Sprint(row.Layer))
		if row.Expert >= 0 {
			add("expert", fmt.Sprint(row.Expert))
		}
	}
	previous := ""
	for s := range placedWords(row.Name) {
		switch _, isNumber := number(s.word); {
		case isNumber && isLayerWord(previous):
			add("layer", s.word)
		case isNumber && isExpertWord(previous):
			add("expert", s.word)
		}
		previous = s.word
	}
	var b strings.Builder
	for _, text := range texts {
		b.WriteString("| ")
		for s := range placedWords(text) {
			b.WriteString(s.word + " ")
		}
	}
	return b.String()
}

// maxMatched bounds the places in a name that are marked.
const maxMatched = 64

// matched returns pairs of offsets of what terms match in a name, ascending and apart from each other.
func matched(name string, all []term) []int {
	pairs := [][2]int{}
	for _, place := range matchesOf(name, all) {
		if pairs = append(pairs, place); len(pairs) == maxMatched {
			break
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	offsets := []int{}
	for _, p := range pairs {
		if n := len(offsets); n > 0 && p[0] <= offsets[n-1] {
			offsets[n-1] = max(offsets[n-1], p[1])
			continue
		}
		offsets = append(offsets, p[0], p[1])
	}
	return offsets
}

// matchesOf yields the places of terms whose words a text has, and their offsets there.
func matchesOf(text string, all []term) iter.Seq2[int, [2]int] {
	return func(yield func(term int, place [2]int) bool) {
		var last [maxPhrase]placedWord // the words before, as in a ring
		n := 0
		for s := range placedWords(text) {
			last[n%len(last)] = s
			n++
			for i := range all {
				t := &all[i]
				first := n - len(t.words)
				if first < 0 || !t.matches(func(i int) string { return last[(first+i)%len(last)].word }) {
					continue
				}
				if !yield(i, [2]int{last[first%len(last)].from, s.to}) {
					return
				}
			}
		}
	}
}

// matches reports whether words of a name are the words of t.
func (t *term) matches(word func(i int) string) bool {
	first := word(0)
	switch {
	case t.isLayer && isLayerWord(first), t.isExpert && isExpertWord(first), first == t.words[0]:
	case t.isBeginning && strings.HasPrefix(first, t.words[0]) && len(t.words) == 1:
	default:
		return false
	}
	for i := 1; i < len(t.words); i++ {
		if word(i) != t.words[i] {
			return false
		}
	}
	return true
}

// example returns a search that finds some tensors of a layer, or one outside.
func (x *Index) example() string {
	for _, expert := range []bool{true, false} {
		for _, r := range x.roles {
			if r.vector || expert != (r.experts > 0) {
				continue
			}
			m := r.members[len(r.members)/2]
			for s := range placedWords(strings.TrimSuffix(r.common(), "projection of experts")) {
				where := fmt.Sprintf("layer %d ", m.layer)
				if expert {
					where += fmt.Sprintf("expert %d ", m.expert)
				}
				if _, n := x.search(context.Background(), x.terms(where+s.word)); n > 0 && n < len(x.Rows) {
					return where + s.word
				}
			}
		}
	}
	for _, i := range x.Outside {
		for s := range placedWords(x.Rows[i].Name) {
			if class(s.word[0]) == 2 && len(s.word) <= 30 {
				return s.word
			}
		}
	}
	return ""
}
