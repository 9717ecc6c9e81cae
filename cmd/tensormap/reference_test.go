package main

import (
	"os"
	"strings"
	"testing"
)

func TestReferenceIsCurrent(t *testing.T) {
	want := done(t, "reference")
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil || string(page) != want {
		t.Errorf("docs/cli.md is not what go generate ./cmd/tensormap writes (%v)", err)
	}
	for _, verb := range []string{"inspect", "verify", "dump", "convert"} {
		if !strings.Contains(want, "\n## "+verb+"\n") {
			t.Errorf("%s is missing", verb)
		}
	}
	if help := done(t, "help"); strings.Contains(help, "reference") {
		t.Error("help mentions it")
	}
}

func TestReferenceFile(t *testing.T) {
	out := t.TempDir() + "/cli.md"
	if got := done(t, "reference", "-o", out); got != "" {
		t.Errorf("prints %q", got)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != done(t, "reference") {
		t.Errorf("the file is something else (%v)", err)
	}
}
