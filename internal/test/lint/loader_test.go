package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadingPath holds what makes the reading path of loader one: a tensor is a thin handle, and what crosses all reading
// attaches in few places.
func TestReadingPath(t *testing.T) {
	files, err := filepath.Glob("../../../loader/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var source, afterBuilding strings.Builder // all, and all but state.go, which builds what a tensor is
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
		if filepath.Base(file) != "state.go" {
			afterBuilding.Write(b)
		}
	}
	for _, held := range []struct {
		what    string
		source  *strings.Builder
		pattern string
		most    int
	}{
		{"unexported methods of Tensor", &source, `(?m)^func \(t Tensor\) [a-z]`, 10},
		{"uses of mmapio.Guard", &source, `mmapio\.Guard\(`, 4},                                                            // guardFile is one of them
		{"questions how a tensor is encoded, outside of state.go", &afterBuilding, `\b(?:desc\(\)|desc|t)\.Encoding\b`, 4}, // Tensor.Encoding, Decrypted, Region
	} {
		if n := len(regexp.MustCompile(held.pattern).FindAllString(held.source.String(), -1)); n > held.most {
			t.Errorf("%d %s in loader, more than %d", n, held.what, held.most)
		}
	}
}
