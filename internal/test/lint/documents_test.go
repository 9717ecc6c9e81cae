package lint

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tensormap/tensormap/"

// blockImports are the packages that code in documents uses without saying so, by the folder of the module that has them.
var blockImports = map[string][]string{
	".": {
		"context", "errors", "fmt", "io", "log", "log/slog", "math", "net/http", "os", "slices", "sync", "time",
		module + "convert", module + "dequant", module + "explore", module + "layout", module + "layout/apr2", module + "layout/gguf",
		module + "layout/safetensors", module + "loader", module + "loader/bind", module + "loader/httprange", module + "loader/survey",
		module + "mmapio", module + "quantize", module + "remote", module + "shard", module + "trust",
	},
	"metrics": {module + "metrics", "github.com/prometheus/client_golang/prometheus"},
}

// blockNames are the names that code in documents takes from the text around it, with their types.
var blockNames = map[string]string{
	"address":      "string",
	"copyToDevice": "func(address uint64, b []byte) error",
	"ctx":          "context.Context",
	"current":      "loader.Current[struct{}]",
	"err":          "error",
	"m":            "*loader.Model",
	"mux":          "*http.ServeMux",
	"path":         "string",
	"signed":       "loader.Trust",
	"text":         "[]byte",
}

// TestGoBlocks checks the types of all Go code in the documents of the module. A block with a package clause is a file, a
// block of declarations the rest of a file, and any other the body of a function that returns an error. blockImports
// and blockNames have what a block does not declare. A variable that is not used is no error.
func TestGoBlocks(t *testing.T) {
	fset := token.NewFileSet()
	blocks := make(map[string][]*ast.File) // by the folder of their module
	for name, page := range documents(t) {
		for _, at := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatchIndex(page, -1) {
			line := 1 + strings.Count(page[:at[2]], "\n")
			folder, file, err := completeBlock(fset, page[at[2]:at[3]], fmt.Sprintf("\n//line %s:%d\n", name, line))
			if err != nil {
				t.Error(err)
				continue
			}
			blocks[folder] = append(blocks[folder], file)
		}
	}
	if len(blocks["."]) < 5 || len(blocks["metrics"]) == 0 {
		t.Fatalf("only %d blocks, %d of metrics", len(blocks["."]), len(blocks["metrics"]))
	}
	for folder, files := range blocks {
		t.Run(folder, func(t *testing.T) { checkTypes(t, fset, folder, files) })
	}
}

// completeBlock makes a file of a block of code, whose lines are those that position says. It returns the folder of the module
// that has all of its imports.
func completeBlock(fset *token.FileSet, code, position string) (folder string, file *ast.File, err error) {
	if strings.HasPrefix(code, "package ") {
		file, err = parser.ParseFile(fset, "", position+code, 0)
		return ".", file, err
	}
	body := position + code
	file, err = parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0)
	if err != nil {
		body = "func _() error {" + body + "\nreturn nil\n}\n"
		if file, err = parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0); err != nil {
			return "", nil, err
		}
	}
	missing := make(map[string]bool)
	for _, id := range file.Unresolved {
		missing[id.Name] = true
	}
	var names strings.Builder
	for name := range missing {
		if typ, ok := blockNames[name]; ok {
			fmt.Fprintf(&names, "var %s %s\n", name, typ)
			of, _, _ := strings.Cut(strings.TrimLeft(typ, "*[]"), ".")
			missing[of] = true
		}
	}
	folder = "."
	var imports strings.Builder
	for in, paths := range blockImports {
		for _, imported := range paths {
			if missing[path.Base(imported)] {
				fmt.Fprintf(&imports, "import %q\n", imported)
				if in != "." {
					folder = in
				}
			}
		}
	}
	file, err = parser.ParseFile(fset, "", "package p\n"+imports.String()+names.String()+body, 0)
	return folder, file, err
}

// checkTypes checks each of the files as a package of the module in a folder. It skips them if what these import cannot be had.
func checkTypes(t *testing.T, fset *token.FileSet, folder string, files []*ast.File) {
	imported := make(map[string]bool)
	for _, file := range files {
		for _, spec := range file.Imports {
			imported[strings.Trim(spec.Path.Value, `"`)] = true
		}
	}
	if folder != "." {
		deps := exec.Command("go", "list", "-deps", ".")
		deps.Dir = filepath.Join("..", "..", "..", folder)
		if out, err := deps.CombinedOutput(); err != nil {
			t.Skipf("what it needs cannot be had here: %s", out)
		}
	}
	_, exports := list(t, folder, slices.Collect(maps.Keys(imported)))
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	compiled := importer.ForCompiler(fset, "gc", open)
	for _, file := range files {
		config := types.Config{Importer: compiled, Error: func(err error) {
			if e, ok := err.(types.Error); !ok || !e.Soft {
				t.Error(err)
			}
		}}
		_, _ = config.Check("p", fset, []*ast.File{file}, nil) // Error has all of its errors
	}
}

// TestLinks finds the files of the module that documents link to, and the headings in them.
func TestLinks(t *testing.T) {
	pages := documents(t)
	links := 0
	for name, page := range pages {
		prose := regexp.MustCompile("(?s)```.*?```|`[^`]*`").ReplaceAllString(page, "")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			links++
			file, heading, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", "..", "..", filepath.FromSlash(to))); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if heading != "" && !slices.Contains(headings(pages[to]), heading) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// headings returns the headings of a page as addresses name them.
func headings(page string) (all []string) {
	page = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		slug := regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// TestLinkedModules finds in README the modules that a program which imports loader links.
func TestLinkedModules(t *testing.T) {
	page := documents(t)["README.md"]
	deps := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./loader")
	deps.Dir = filepath.Join("..", "..", "..")
	out, err := deps.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	linked := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	if err != nil || len(linked) != 6 || !strings.Contains(page, "`loader` links five modules") {
		t.Errorf("%d modules, this one among them (%v)", len(linked), err)
	}
	for _, path := range linked {
		if !strings.Contains(page, path) {
			t.Errorf("README lacks %s", path)
		}
	}
}

// TestMakeTargets finds the targets of the Makefile that documents name.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for name, page := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)").FindAllStringSubmatch(page, -1) {
			targets++
			if !strings.Contains(string(makefile), "\n"+m[1]+": ") {
				t.Errorf("%s: there is no make %s", name, m[1])
			}
		}
	}
	if targets < 20 {
		t.Errorf("only %d targets are named", targets)
	}
}

// documents returns the text of each Markdown file of the module, by its path below the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	pages := make(map[string]string)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "out"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		pages[strings.TrimPrefix(filepath.ToSlash(file), "../../../")] = strings.ReplaceAll(string(text), "\r\n", "\n")
		return err
	})
	if err != nil || pages["README.md"] == "" {
		t.Fatal(len(pages), err)
	}
	return pages
}

// TestNamesInDocuments finds the exported names of this module that documents write as package.Name, and those of models,
// tensors and leases.
func TestNamesInDocuments(t *testing.T) {
	aliases := map[string]string{"m": "loader.Model", "t": "loader.Tensor", "Model": "loader.Model", "Tensor": "loader.Tensor", "Lease": "loader.Lease"}
	_, exports := list(t, ".", blockImports["."])
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	names := 0
	for page, text := range documents(t) {
		if page == "CHANGELOG.md" { // which has names of before
			continue
		}
		for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(text, -1) {
			for _, m := range regexp.MustCompile(`(?:^|[^\w.])(\w+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`).FindAllStringSubmatch(span, -1) {
				full := strings.Split(cmp.Or(aliases[m[1]], m[1])+"."+m[2]+"."+m[3], ".")
				at := slices.IndexFunc(blockImports["."], func(path string) bool {
					return strings.HasPrefix(path, module) && strings.HasSuffix(path, "/"+full[0])
				})
				if at < 0 {
					continue
				}
				names++
				if !declares(t, compiled, blockImports["."][at], full[1], full[2]) {
					t.Errorf("%s: there is no %s", page, strings.Trim(m[0], "` (*&"))
				}
			}
		}
	}
	if names < 100 {
		t.Errorf("only %d names", names)
	}
}

// declares reports whether a package declares a name and, unless member is empty, its type a field or method called member.
func declares(t *testing.T, compiled types.Importer, path, name, member string) bool {
	t.Helper()
	pkg, err := compiled.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	found := pkg.Scope().Lookup(name)
	if found == nil || member == "" {
		return found != nil
	}
	obj, _, _ := types.LookupFieldOrMethod(found.Type(), true, pkg, member)
	return obj != nil
}
