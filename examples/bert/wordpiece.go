package bert

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer divides text as BERT's uncased models do: into words and signs, and words into tokens of the vocabulary.
type Tokenizer struct {
	ids           map[string]int
	cls, sep, unk int
}

// newTokenizer returns the Tokenizer of a vocabulary: the number of a token is its index. The error is of a token that is
// missing, or of letters in upper case, which only cased models have.
func newTokenizer(tokens []string) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int, len(tokens))}
	for id, token := range tokens {
		if token != strings.ToLower(token) && !strings.HasPrefix(token, "[") {
			return nil, fmt.Errorf("token %q has upper case: only uncased models are read here", token)
		}
		t.ids[token] = id
	}
	for token, id := range map[string]*int{"[CLS]": &t.cls, "[SEP]": &t.sep, "[UNK]": &t.unk} {
		n, ok := t.ids[token]
		if !ok {
			return nil, fmt.Errorf("no token %s", token)
		}
		*id = n
	}
	return t, nil
}

// Tokens returns the tokens of text between [CLS] and [SEP]. More than limit, these two included, are cut off.
func (t *Tokenizer) Tokens(text string, limit int) []int {
	ids := []int{t.cls}
	for _, word := range words(text) {
		ids = t.appendTokens(ids, word)
	}
	return append(ids[:min(len(ids), limit-1)], t.sep)
}

// longestWord is the number of characters up to which a word is divided. A longer word becomes [UNK].
const longestWord = 100

// appendTokens appends the longest token that word begins with, then the longest that the rest begins with, and so on.
func (t *Tokenizer) appendTokens(ids []int, word string) []int {
	if len([]rune(word)) > longestWord {
		return append(ids, t.unk)
	}
	begun := len(ids)
	for prefix := ""; word != ""; prefix = "##" {
		end := len(word)
		for end > 0 {
			if id, ok := t.ids[prefix+word[:end]]; ok {
				ids = append(ids, id)
				break
			}
			end--
		}
		if end == 0 {
			return append(ids[:begun], t.unk)
		}
		word = word[end:]
	}
	return ids
}

// words returns text in lower case without accents and controls, divided at spaces. Punctuation, also a sign of ASCII that
// Unicode calls a symbol, and Chinese characters are words of their own.
func words(text string) []string {
	var b strings.Builder
	for _, r := range norm.NFD.String(strings.ToValidUTF8(text, "")) {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		case r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Mn):
		case unicode.Is(ideographs, r) || unicode.IsPunct(r) || r < 128 && unicode.IsSymbol(r):
			b.WriteString(" " + string(r) + " ")
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return strings.Fields(b.String())
}

// ideographs are the blocks of CJK ideographs that BERT separates.
var ideographs = &unicode.RangeTable{
	R16: []unicode.Range16{{0x3400, 0x4DBF, 1}, {0x4E00, 0x9FFF, 1}, {0xF900, 0xFAFF, 1}},
	R32: []unicode.Range32{{0x20000, 0x2A6DF, 1}, {0x2A700, 0x2B73F, 1}, {0x2B740, 0x2B81F, 1}, {0x2B820, 0x2CEAF, 1}, {0x2F800, 0x2FA1F, 1}},
}
