package formats_test

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

// TestNames: what is read is known by a name and by how files are called, and what is no file
// of tensors is left out.
func TestNames(t *testing.T) {
	var names []string
	for _, f := range formats.Names() {
		names = append(names, f.String())
		if s := formats.Suffix(f); len(s) < 2 || s[0] != '.' || s != strings.ToLower(s) {
			t.Errorf("%v: suffix %q", f, s)
		}
	}
	if got, want := strings.Join(names, " "), "apr2 apr1 april bw2l tsm gguf safetensors"; got != want {
		t.Errorf("formats %s, want %s", got, want)
	}
	for f, want := range map[layout.Format]string{layout.Unknown: "unknown", layout.Manifest: "manifest", "other": "other"} {
		if got := f.String(); got != want || formats.Suffix(f) != "" {
			t.Errorf("%q with suffix %q, want %q without", got, formats.Suffix(f), want)
		}
	}
}
