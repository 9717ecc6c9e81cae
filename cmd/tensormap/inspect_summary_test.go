package main

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// TestInspectLongSummary has a GGUF file state names of which neither lines nor length are meant
// to be read.
func TestInspectLongSummary(t *testing.T) {
	for _, name := range []string{strings.Repeat("n\n", 50_000), strings.Repeat("n", 100_000)} {
		u64 := func(n int) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
		b := "GGUF\x03\x00\x00\x00" + u64(0) + u64(1) + u64(len("general.name")) + "general.name" + "\x08\x00\x00\x00" + u64(len(name)) + name
		out := done(t, "inspect", modeltest.Write(t, "model.gguf", []byte(b)))
		if lines := strings.Count(out, "\n"); lines > 40 || len(out) > 2000 || !strings.Contains(out, "\nname  n") {
			t.Errorf("%d lines, %d bytes: %.500q", lines, len(out), out)
		}
	}
}
