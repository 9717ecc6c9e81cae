package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxOwnWords bounds how often ownWords occur in the module. It may fall, and it never rises.
const maxOwnWords = 15

// ownWords are words that only this project used for what a term of docs/glossary.md means: as words of their own, and as the
// first or the last word of a name.
var ownWords = struct{ alone, first, last []string }{
	alone: []string{
		"room", "rooms", "afar", "unseal", "unsealed", "unseals", "seal", "sealed", "seals", "kept", "keptBy", "roster", "leaveRoster", "strayed",
		"doubtful", "patience", "insist", "landed", "brief", "spelled", "shaping", "give back", "given back", "gives back", "giveBack",
		"be it", "of these", "of those", "so many",
	},
	first: []string{"most", "few", "alone", "far", "held", "kept"},
	last:  []string{"Afar", "Sealed", "Unsealed", "Roster", "Kept", "Held", "Doubtful", "Brief"},
}

// TestOwnWords counts ownWords in all Go files of the module but its tests and what is generated.
func TestOwnWords(t *testing.T) {
	either := func(words []string) string { return "(" + strings.Join(words, "|") + ")" }
	pattern := regexp.MustCompile(`\b` + either(ownWords.alone) + `\b|\b` + either(ownWords.first) + `[A-Z]|[a-z]` + either(ownWords.last) + `\b`)
	counts := make(map[string]int)
	total := 0
	err := eachSource(func(_ string, text string) {
		for _, word := range pattern.FindAllString(text, -1) {
			counts[word]++
			total++
		}
	})
	if err != nil || total > maxOwnWords {
		t.Errorf("%d uses of own words, more than %d (%v): %v", total, maxOwnWords, err, counts)
	}
}

// eachSource calls f with the path below the root and the text of every Go file of the module but tests and generated files.
func eachSource(f func(name, text string)) error {
	root := filepath.Join("..", "..", "..")
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "out"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(base) != ".go" || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if head, _, _ := strings.Cut(string(text), "\npackage "); err == nil && !strings.Contains(head, "Code generated") {
			f(strings.TrimPrefix(filepath.ToSlash(file), "../../../"), string(text))
		}
		return err
	})
}

// TestGlossary finds the types that docs/glossary.md names, as package.Type or package.Type.Member, and checks its length.
func TestGlossary(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "glossary.md"))
	if lines := strings.Count(string(page), "\n"); err != nil || lines > 120 {
		t.Fatalf("%d lines (%v), more than 120", lines, err)
	}
	declared := make(map[string]bool)
	if err := eachSource(func(name, text string) { declare(t, declared, name, text) }); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z0-9]+\\.[A-Z][A-Za-z.]*)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 50 {
		t.Errorf("only %d types are named", len(names))
	}
	for _, m := range names {
		if !declared[m[1]] {
			t.Errorf("docs/glossary.md: there is no %s", m[1])
		}
	}
}

// declare adds the types that a file declares, with their fields and methods, as the glossary names them.
func declare(t *testing.T, declared map[string]bool, name, text string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			typ := spec.(*ast.TypeSpec)
			full := fmt.Sprintf("%s.%s", file.Name.Name, typ.Name.Name)
			declared[full] = true
			var members *ast.FieldList
			switch is := typ.Type.(type) {
			case *ast.StructType:
				members = is.Fields
			case *ast.InterfaceType:
				members = is.Methods
			}
			for _, field := range slices.Concat(listOf(members)...) {
				declared[full+"."+field.Name] = true
			}
		}
	}
}

// listOf returns the names of each member in a list, which may be nil.
func listOf(members *ast.FieldList) (names [][]*ast.Ident) {
	if members == nil {
		return nil
	}
	for _, f := range members.List {
		names = append(names, f.Names)
	}
	return names
}
