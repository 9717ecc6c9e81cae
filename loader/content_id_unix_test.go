//go:build unix

package loader_test

import (
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// TestContentID: a file has the same ID by each way that opens it by its name, and another one after each change. Memory has none,
// nor has a file that was written this second.
func TestContentID(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.SafeTensors(modeltest.Random("x", layout.U8, 100)))
	ids := func() map[string]string {
		t.Helper()
		found := make(map[string]string)
		for _, w := range localWays {
			m, err := w.open(t, path, nil)
			found[w.name] = modeltest.Opened(t, m, err).Files()[0].ContentID
		}
		return found
	}
	for name, id := range ids() {
		if id != "" {
			t.Errorf("%s: %q of a new file", name, id)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	first := ids()
	rewrite(t, path)
	time.Sleep(1100 * time.Millisecond)
	second := ids()
	for name, id := range first {
		if isFile := name != "OpenBytes"; (id != "") != isFile || isFile && (id == second[name] || id != first["Open"]) {
			t.Errorf("%s: %q, then %q; by its name %q", name, id, second[name], first["Open"])
		}
	}
}
