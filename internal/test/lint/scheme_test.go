package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSchemeFiles holds package scheme to one file a scheme: short, with the scheme and then its function setForm, and named as its
// page. Only the registry and other schemes use what such a file declares.
func TestSchemeFiles(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "scheme", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var schemes []string
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") {
			continue
		}
		if n := bytes.Count(src, []byte("\n")); n > 250 {
			t.Errorf("scheme/%s has %d lines, more than 250", base, n)
		}
		setForm, isScheme := schemeIn(t, file, src)
		if !isScheme {
			continue
		}
		schemes = append(schemes, base)
		if !bytes.Contains(src, []byte("\nfunc (w *weight) "+setForm+"() error {")) {
			t.Errorf("scheme/%s does not have its function %s", base, setForm)
		}
		page := strings.ReplaceAll(strings.TrimSuffix(base, ".go"), "_", "-") + ".md"
		if _, err := os.Stat(filepath.Join(root, "docs", "quantized", page)); err != nil {
			t.Error(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "quantized", "*.md"))
	if err != nil || len(pages) != len(schemes) {
		t.Errorf("%d pages, and the schemes %v", len(pages), schemes)
	}
	packages, exports := list(t, ".", []string{"./scheme"})
	uses, err := fileUses(packages[0], exports)
	if err != nil {
		t.Fatal(err)
	}
	isScheme := func(file string) bool { return slices.Contains(schemes, filepath.Base(file)) }
	among := make(map[string][]string)
	for from, list := range uses {
		for _, to := range list {
			switch {
			case !isScheme(to) || filepath.Base(from) == "registry.go":
			case isScheme(from):
				among[from] = append(among[from], to)
			default:
				t.Errorf("scheme/%s uses names of %s", filepath.Base(from), filepath.Base(to))
			}
		}
	}
	if circle := circleOf(among); circle != nil {
		t.Errorf("schemes use each other: %v", circle)
	}
}

// schemeIn reports whether a file declares a variable that is a scheme, and returns the name of its setForm.
func schemeIn(t *testing.T, file string, src []byte) (setForm string, ok bool) {
	code, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(code, func(n ast.Node) bool {
		literal, isLiteral := n.(*ast.CompositeLit)
		if !isLiteral {
			return true
		}
		if of, isName := literal.Type.(*ast.Ident); isName && of.Name == "scheme" && len(literal.Elts) > 1 {
			if f, isMethod := literal.Elts[1].(*ast.SelectorExpr); isMethod {
				setForm, ok = f.Sel.Name, true
			}
		}
		return false
	})
	return setForm, ok
}
