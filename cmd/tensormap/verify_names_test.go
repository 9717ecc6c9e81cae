package main

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// TestVerifyHostileNames has a BW2L file call a section what clears a terminal and forges a line
// of output.
func TestVerifyHostileNames(t *testing.T) {
	name := "\x1b[2J\nother.b2l: ok\r\u202e"
	b := "BW2L\x01\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
		string(rune(len(name))) + name + "\x04data" + strings.Repeat("\x00", 16)
	path := modeltest.Write(t, "model.b2l", []byte(b))
	out := done(t, "verify", path)
	plain(t, out)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, `: ok: \x1b[2J\nother.b2l: ok\r\u202e, bounds, `) {
		t.Errorf("output %q", out)
	}
	plain(t, done(t, "verify", "--json", path))
}
