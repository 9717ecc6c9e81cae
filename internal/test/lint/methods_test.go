package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMethodsShown holds public packages to methods that go doc shows. It does not show those of an internal package's type, of which an
// exported type is an alias, or which it embeds.
func TestMethodsShown(t *testing.T) {
	pkgs, exports := list(t, ".", []string{"./..."})
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	from := importer.ForCompiler(token.NewFileSet(), "gc", open)
	public := 0
	for _, listed := range pkgs {
		if isInternal(listed.ImportPath) || len(listed.GoFiles) == 0 {
			continue
		}
		pkg, err := from.Import(listed.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		public++
		for _, method := range hiddenMethods(pkg) {
			t.Errorf("%s: an internal package declares %s", listed.ImportPath, method)
		}
	}
	if public == 0 {
		t.Error("no package is public")
	}
}

// isInternal reports whether a package of a module is internal. Those of Go itself are none.
func isInternal(path string) bool {
	return strings.Contains(path, ".") && slices.Contains(strings.Split(path, "/"), "internal")
}

// hiddenMethods returns the methods of exported types of pkg that an internal package declares.
func hiddenMethods(pkg *types.Package) (methods []string) {
	for _, name := range pkg.Scope().Names() {
		of, isType := pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType || !of.Exported() {
			continue
		}
		holder := of.Type()
		if !types.IsInterface(holder) {
			holder = types.NewPointer(holder)
		}
		for method := range types.NewMethodSet(holder).Methods() {
			if m := method.Obj(); m.Exported() && isInternal(m.Pkg().Path()) {
				methods = append(methods, name+"."+m.Name())
			}
		}
	}
	return methods
}

// TestHiddenMethods has types that hide methods in each way, and types that do not.
func TestHiddenMethods(t *testing.T) {
	fset := token.NewFileSet()
	known := make(packages)
	for _, p := range []struct{ path, source string }{
		{"x.org/internal/in", "package in; type T struct{}; func (*T) M() {}; func (*T) m() {}; type I interface{ N() }"},
		{"x.org/public", `package public; import "x.org/internal/in"
			type Alias = in.T; type Embeds struct{ *in.T }; type Wide interface{ in.I }; type Holds struct{ *own }; type own struct{ in.T }
			type Shown struct{ *in.T }; func (Shown) M() {}; type Held struct { t in.T }; type Named in.T`},
	} {
		file, err := parser.ParseFile(fset, "", p.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if known[p.path], err = (&types.Config{Importer: known}).Check(p.path, fset, []*ast.File{file}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(hiddenMethods(known["x.org/public"])); got != "[Alias.M Embeds.M Holds.M Wide.N]" {
		t.Error(got)
	}
}

// packages are those that a test has checked, by their paths.
type packages map[string]*types.Package

// Import returns the package of a path.
func (p packages) Import(path string) (*types.Package, error) { return p[path], nil }
