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

// schemeFunctions are the functions of every scheme, in the order in which its file has them.
var schemeFunctions = []string{"patterns", "configure", "setForm", "readScales"}

// TestSchemeFiles holds package scheme to one file a scheme: short, with the same functions in the same order, and named as its
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
		longest := 250
		if base == "find.go" {
			longest = 300
		}
		if n := bytes.Count(src, []byte("\n")); n > longest {
			t.Errorf("scheme/%s has %d lines, more than %d", base, n, longest)
		}
		switch has := methodsOf(t, file, src); {
		case len(has) == 0:
		case !slices.Equal(has, schemeFunctions):
			t.Errorf("scheme/%s has the functions %v, not %v", base, has, schemeFunctions)
		default:
			schemes = append(schemes, base)
			page := strings.ReplaceAll(strings.TrimSuffix(base, ".go"), "_", "-") + ".md"
			if _, err := os.Stat(filepath.Join(root, "docs", "quantized", page)); err != nil && base != "undecoded.go" {
				t.Error(err)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "quantized", "*.md"))
	if err != nil || len(pages)+1 != len(schemes) {
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

// methodsOf returns the functions of a scheme in the order in which a file has them.
func methodsOf(t *testing.T, file string, src []byte) (has []string) {
	code, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range code.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv != nil && slices.Contains(schemeFunctions, f.Name.Name) {
			if of, ok := f.Recv.List[0].Type.(*ast.Ident); ok && of.Name != "weight" {
				has = append(has, f.Name.Name)
			}
		}
	}
	return has
}
