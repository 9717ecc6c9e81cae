package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecture holds docs/architecture.md to the tree: the paths that it names are there, and it names every
// package and every file of package loader.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
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
	rooms, _, _ := strings.Cut(page, "\n## Two ways")
	for _, folder := range []string{".", "internal", "layout", "loader"} {
		dirs, err := filepath.Glob(filepath.Join(root, folder, "*", "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if name := filepath.Base(filepath.Dir(dir)); !regexp.MustCompile(`\b` + name + `\b`).MatchString(rooms) {
				t.Errorf("the rooms lack %s", filepath.Join(folder, name))
			}
		}
	}
}
