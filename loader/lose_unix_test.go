//go:build unix

package loader_test

import (
	"os"
	"testing"

	"github.com/tensormap/tensormap/mmapio"
)

// losePages takes from a mapping of the file at path all pages but those of the first left bytes: it cuts the file.
func losePages(t *testing.T, path string, _ *mmapio.Mapping, left int64) {
	t.Helper()
	if err := os.Truncate(path, left); err != nil {
		t.Fatal(err)
	}
}
