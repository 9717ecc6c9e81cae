package fuzz

import (
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

// functions are those that libFuzzer runs.
var functions = map[string]func([]byte) int{"FuzzOpen": FuzzOpen, "FuzzManifest": FuzzManifest, "FuzzJSON": FuzzJSON, "FuzzScheme": FuzzScheme, "FuzzQuantState": FuzzQuantState}

// TestSeeds gives every file of testdata to every function.
func TestSeeds(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../../testdata", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for name, f := range functions {
			func() {
				defer func() {
					if v := recover(); v != nil {
						t.Errorf("%s of %s: %v", name, path, v)
					}
				}()
				f(b)
			}()
		}
		files++
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestBuildList holds the list in build.sh against the functions here.
func TestBuildList(t *testing.T) {
	var declared, built []string
	names, _ := filepath.Glob("*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && len(f.Name.Name) > 4 && f.Name.Name[:4] == "Fuzz" {
				declared = append(declared, f.Name.Name)
			}
		}
	}
	script, err := os.ReadFile("../../../.clusterfuzzlite/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^compile_go_fuzzer \$package (\w+) (\w+)$`).FindAllSubmatch(script, -1) {
		built = append(built, string(m[1]))
		if !regexp.MustCompile(`(?m)^seeds ` + string(m[2]) + ` `).Match(script) {
			t.Errorf("%s has no seeds", m[2])
		}
	}
	slices.Sort(declared)
	slices.Sort(built)
	if !slices.Equal(declared, built) || len(declared) != len(functions) {
		t.Errorf("the package has %v, build.sh builds %v, the test knows %d", declared, built, len(functions))
	}
}
