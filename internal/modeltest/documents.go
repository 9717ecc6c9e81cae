package modeltest

import (
	"errors"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// Marked returns a document without the ¶ that marks a place in it, and that place.
func Marked(s string) (doc layout.Bytes, at uint64) {
	before, after, ok := strings.Cut(s, "¶")
	if !ok {
		return layout.Bytes(s), 0
	}
	return layout.Bytes(before + after), uint64(len(before))
}

// CheckManifestError wants a FormatError of a manifest: its place, field, sentinel, and part of its
// text, which is one line.
func CheckManifestError(t *testing.T, err error, at uint64, field string, want error, says string) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) {
		t.Fatalf("%v is no FormatError", err)
	}
	if fe.Format != layout.Manifest || fe.Field != field || fe.Offset != at || !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want offset %d, %s, %q, %v", err, at, field, says, want)
	}
	if strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("%q", err)
	}
}
