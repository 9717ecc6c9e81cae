package lint

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestArchitecture holds docs/architecture.md to the tree: the paths that it names are there, and it names every
// package and every file of package loader.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, m := range regexp.MustCompile("`([a-z][a-z_0-9/]*/[a-z_0-9/]+(?:\\.go)?)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("there is no %s", m[1])
		}
	}
	var module strings.Builder
	if err := eachSource(func(_, text string) { module.WriteString(text) }); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]*)\\.([a-z][A-Za-z]*)`").FindAllStringSubmatch(page, -1) { // methods that are not exported
		if !regexp.MustCompile(`(?m)^func \(\w+ \*?` + m[1] + `(?:\[\w+\])?\) ` + m[2] + `\(`).MatchString(module.String()) {
			t.Errorf("there is no %s.%s", m[1], m[2])
		}
	}
	_, files, _ := strings.Cut(page, "\n## The files of loader\n")
	files, _, _ = strings.Cut(files, "\n## ")
	for _, m := range regexp.MustCompile("`([a-z_]+\\.go)`").FindAllStringSubmatch(files, -1) {
		if _, err := os.Stat(filepath.Join(root, "loader", m[1])); err != nil {
			t.Errorf("package loader has no %s", m[1])
		}
	}
	names, err := filepath.Glob(filepath.Join(root, "loader", "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		switch base := filepath.Base(name); {
		case base == "doc.go", strings.HasSuffix(base, "_test.go"), strings.HasSuffix(base, "_unix.go"), strings.HasSuffix(base, "_other.go"):
		case !strings.Contains(files, "`"+base+"`"):
			t.Errorf("the files of loader lack %s", base)
		}
	}
	packages, _, _ := strings.Cut(page, "\n## Two paths")
	for _, folder := range []string{".", "internal", "layout", "loader"} {
		dirs, err := filepath.Glob(filepath.Join(root, folder, "*", "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if name := filepath.Base(filepath.Dir(dir)); !regexp.MustCompile(`\b` + name + `\b`).MatchString(packages) {
				t.Errorf("the packages lack %s", filepath.Join(folder, name))
			}
		}
	}
}

// layers are the folders of the module from the ground up. What is in one imports only what is below, or its own.
var layers = [][]string{{"internal"}, {"layout"}, {"mmapio", "dequant", "shard", "trust", "internal/elements"}, {"scheme"}, {"loader", "quantize"}, {"internal/report"}, {"internal/drawing"}, {"convert", "remote", "explore"}, {"cmd", "bench", "web"}}

// TestImportsDownward holds the imports of all packages to the order of the layers. Packages in internal/test use what they test.
func TestImportsDownward(t *testing.T) {
	unit := func(path string) string { // the folder of a path, or the package of internal that is above others
		for _, above := range []string{"internal/elements", "internal/report", "internal/drawing"} {
			if path == above || strings.HasPrefix(path, above+"/") {
				return above
			}
		}
		folder, _, _ := strings.Cut(path, "/")
		return folder
	}
	layerOf := func(folder string) int {
		return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, folder) })
	}
	const module = "github.com/tensormap/tensormap/"
	root := filepath.Join("..", "..", "..")
	files := 0
	err := filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		parts := strings.Split(strings.TrimPrefix(filepath.ToSlash(file), "../../../"), "/")
		if err != nil || layerOf(parts[0]) < 0 || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") ||
			slices.Contains(parts, "testdata") || parts[0] == "internal" && parts[1] == "test" {
			return err
		}
		files++
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range code.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			name, ours := strings.CutPrefix(path, module)
			folder, own := unit(name), unit(strings.Join(parts, "/"))
			if err != nil || ours && folder != own && layerOf(folder) >= layerOf(own) {
				t.Errorf("%s imports %s, which is not below it (%v)", file, path, err)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Error(files, err)
	}
}

// TestQuantizeOffReadingPath: package quantize, which only writers of models need, is imported by these alone, so that no program
// that imports loader has it. It imports layout, dequant and internal packages.
func TestQuantizeOffReadingPath(t *testing.T) {
	const module = "github.com/tensormap/tensormap/"
	importers := 0
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(file string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../../")
		top, _, _ := strings.Cut(dir, "/")
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range code.Imports {
			path, _ := strconv.Unquote(imported.Path.Value)
			name, ours := strings.CutPrefix(path, module)
			if name == "quantize" {
				importers++
				if !slices.Contains([]string{"convert", "cmd", "bench"}, top) {
					t.Errorf("%s imports quantize", file)
				}
			}
			if dir == "quantize" && ours && name != "layout" && name != "dequant" && !strings.HasPrefix(name, "internal/") {
				t.Errorf("%s imports %s", file, path)
			}
		}
		return nil
	})
	if err != nil || importers == 0 {
		t.Error(importers, err)
	}
}

// TestSameFiles finds in every package of a format the files that all of them have, with what each is for.
func TestSameFiles(t *testing.T) {
	const layout = "../../../layout/"
	formats, err := filepath.Glob(layout + "*/format.go")
	if err != nil || len(formats) == 0 {
		t.Fatal(formats, err)
	}
	for _, format := range formats {
		dir := filepath.Dir(format)
		for _, want := range []struct{ file, declares string }{
			{"doc.go", "\npackage "},
			{"format.go", "\nvar Format = "},
			{"decode.go", "\nfunc Decode("},
			{"decode.go", "\nfunc (f *File) Index("},
			{"metadata.go", "\nfunc (f *File) Metadata("},
			{"audit.go", "\nfunc (f *File) Checksums("},
			{"audit.go", "\nfunc (f *File) Audit("},
		} {
			code, err := os.ReadFile(filepath.Join(dir, want.file))
			if text := strings.ReplaceAll(string(code), "func (m *File)", "func (f *File)"); !strings.Contains(text, want.declares) {
				t.Errorf("%s of %s has no %q (%v)", want.file, dir, strings.TrimSpace(want.declares), err)
			}
		}
	}
}
