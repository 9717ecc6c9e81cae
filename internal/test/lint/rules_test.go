package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// maxWords bounds a sentence of a comment.
const maxWords = 25

var (
	// weakOpenings follow a function's name in place of an active verb.
	weakOpenings = regexp.MustCompile(`^(is|are|has|have|was|were|does so|as|of|where|what|whose|in|for|with|without|to)\b`)

	// clauses read twice: a sentence that opens with a clause as its subject, and "of which".
	clauses = regexp.MustCompile(`^(That|What|Whether|Whoever|Whatever|Of an?|Of the) |\bof (which|whom)\b|\bwhat [\w ]{1,30} (is|are) (for|of)\b`)

	sentenceEnd = regexp.MustCompile(`[.;:!?][)"”]?\s+`)
	generated   = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// prose returns what the comments of one Go file break: "LINE: rule". Functions open with their name
// and an active verb. All comments keep sentences short. Generated files break nothing.
func prose(src []byte) (broken []string, err error) {
	if generated.Match(src) {
		return nil, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	report := func(c *ast.CommentGroup, format string, args ...any) {
		broken = append(broken, fmt.Sprintf("%d: ", fset.Position(c.Pos()).Line)+fmt.Sprintf(format, args...))
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Doc.Text() == "" {
			continue
		}
		name := f.Name.Name
		rest, ok := strings.CutPrefix(paragraphs(f.Doc), name+" ")
		if !ok {
			report(f.Doc, "the comment does not open with %q", name)
		} else if weak := weakOpenings.FindString(rest); weak != "" {
			report(f.Doc, "%q opens without an active verb", name+" "+weak)
		}
	}
	for _, c := range file.Comments {
		for _, sentence := range sentenceEnd.Split(paragraphs(c), -1) {
			if n := len(strings.Fields(sentence)); n > maxWords {
				report(c, "%d words in a sentence: %.60s…", n, sentence)
			}
			if clause := clauses.FindString(sentence); clause != "" {
				report(c, "hard to read: %q in: %.60s…", strings.TrimSpace(clause), sentence)
			}
		}
	}
	return broken, nil
}

// paragraphs returns a comment's sentences on one line, without directives and indented blocks.
// The end of a paragraph ends a sentence.
func paragraphs(doc *ast.CommentGroup) string {
	var b strings.Builder
	for line := range strings.Lines(doc.Text()) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "  "):
		case line == "":
			b.WriteString(". ")
		default:
			b.WriteString(line + " ")
		}
	}
	return b.String()
}
