// Typecheck checks the types of a module's packages and tests on other platforms.
//
//	go run . -C DIR windows/amd64 linux/386 …
//
// Everything is read from source, the standard library too, so that nothing has to be
// compiled. Bodies of functions are checked in the module itself only.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "`folder` of the module")
	flag.Parse()
	root, err := filepath.Abs(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
	status := 0
	for _, platform := range flag.Args() {
		start := time.Now()
		n, err := check(root, platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", platform, err)
			status = 1
			continue
		}
		fmt.Printf("%-15s %3d packages, tests included, %4.1f s\n", platform, n, time.Since(start).Seconds())
	}
	os.Exit(status)
}

// check returns the number of packages checked. The error holds one line for each mistake, or says that there are no
// packages.
func check(root, platform string) (n int, err error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir:   root,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch),
		Tests: true,
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if f == nil || strings.HasPrefix(name, root+string(filepath.Separator)) {
				return f, err
			}
			// No importer can see bodies. What a package then imports in vain is an error of that package, and of no interest.
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					fn.Body = nil
				}
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	var mistakes []string
	for _, p := range pkgs {
		if strings.HasSuffix(p.ID, ".test") {
			continue // the main package that go test writes, which lies outside the module
		}
		n++
		for _, e := range p.Errors {
			mistakes = append(mistakes, e.Error())
		}
	}
	if len(mistakes) > 0 || n == 0 {
		return 0, fmt.Errorf("%d packages, %d mistakes:\n%s", n, len(mistakes), strings.Join(mistakes, "\n"))
	}
	return n, nil
}
