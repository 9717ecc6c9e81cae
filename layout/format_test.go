package layout_test

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestFormats: what is read is known by a name and by how files are called, and what is no file
// of tensors is left out.
func TestFormats(t *testing.T) {
	var names []string
	for f := range layout.Formats() {
		names = append(names, f.String())
		if s := f.Suffix(); len(s) < 2 || s[0] != '.' || s != strings.ToLower(s) {
			t.Errorf("%v: suffix %q", f, s)
		}
	}
	if got, want := strings.Join(names, " "), "apr2 apr1 april bw2l tsm gguf safetensors"; got != want {
		t.Errorf("formats %s, want %s", got, want)
	}
	for range layout.Formats() {
		break
	}
	for f, want := range map[layout.Format]string{layout.Unknown: "unknown", layout.Manifest: "manifest", 200: "Format(200)"} {
		if got := f.String(); got != want || f.Suffix() != "" {
			t.Errorf("%q with suffix %q, want %q without", got, f.Suffix(), want)
		}
	}
}
