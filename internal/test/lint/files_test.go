package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layered are the packages whose files depend downward only: no two use names of each other, not
// even by way of others.
var layered = []string{
	"./convert", "./internal/parallel", "./loader/internal/cache", "./loader/internal/content", "./loader/internal/decrypted",
	"./loader/internal/plan", "./loader/internal/values",
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
	DepOnly                 bool // another package needs it, nobody asked for it
}

func TestFilesDependDownward(t *testing.T) {
	pkgs, exports := list(t, ".", layered)
	for _, pkg := range pkgs {
		uses, err := fileUses(pkg, exports)
		if err != nil {
			t.Fatal(err)
		}
		if circle := circleOf(uses); circle != nil {
			t.Errorf("%s: files use each other: %v", pkg.ImportPath, circle)
		}
	}
}

// list returns the packages that the module in a folder knows by these patterns, and the export data of all that they import.
func list(t *testing.T, folder string, patterns []string) (pkgs []listed, exports map[string]string) {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}
	list := exec.Command("go", append(args, patterns...)...)
	list.Dir = filepath.Join("..", "..", "..", folder)
	out, err := list.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	exports = make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[pkg.ImportPath] = pkg.Export
		if !pkg.DepOnly {
			pkgs = append(pkgs, pkg)
		}
	}
	if len(pkgs) != len(patterns) && !slices.Contains(patterns, "./...") {
		t.Fatalf("%d packages, want %d", len(pkgs), len(patterns))
	}
	return pkgs, exports
}

// fileUses returns which files of pkg use names that which others declare.
func fileUses(pkg listed, exports map[string]string) (map[string][]string, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	checked, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", open)}).Check(pkg.ImportPath, fset, files, &info)
	uses := make(map[string][]string)
	for id, of := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(of.Pos()).Filename
		if of.Pkg() == checked && from != to && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return uses, err
}

// circleOf returns files that use each other in a circle, or nil.
func circleOf(uses map[string][]string) (circle []string) {
	done := make(map[string]bool)
	var path []string
	var visit func(file string)
	visit = func(file string) {
		if at := slices.Index(path, file); at >= 0 && circle == nil {
			for _, f := range path[at:] {
				circle = append(circle, filepath.Base(f))
			}
		}
		if circle != nil || done[file] {
			return
		}
		path = append(path, file)
		for _, used := range uses[file] {
			visit(used)
		}
		path = path[:len(path)-1]
		done[file] = true
	}
	for file := range uses {
		visit(file)
	}
	return circle
}

// TestCircleOf has files in a circle and without one.
func TestCircleOf(t *testing.T) {
	if c := circleOf(map[string][]string{"a": {"b", "c"}, "b": {"c"}, "d": {"a"}}); c != nil {
		t.Error(c)
	}
	c := circleOf(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}})
	if slices.Sort(c); !slices.Equal(c, []string{"b", "c"}) {
		t.Error(c)
	}
}

// TestSequential holds the packages that the race detector leaves out to what the Makefile says of them: they start
// no goroutine, not even by package parallel.
func TestSequential(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^SEQUENTIAL = (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no SEQUENTIAL")
	}
	left := regexp.MustCompile("^(" + string(line[1]) + ")$")
	packages := 0
	err = filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../../")
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || !left.MatchString(name) {
			return err
		}
		packages++
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, imported := range code.Imports {
			if strings.HasSuffix(imported.Path.Value, `/internal/parallel"`) {
				t.Errorf("%s has workers of package parallel", file)
			}
		}
		ast.Inspect(code, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine", file)
			}
			return true
		})
		return nil
	})
	if err != nil || packages == 0 {
		t.Error(packages, err)
	}
}
