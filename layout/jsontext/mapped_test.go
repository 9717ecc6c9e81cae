package jsontext

import (
	"errors"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestNotUTF8 finds the byte, if it is still there: a mapped text may have changed since it was
// found to be invalid.
func TestNotUTF8(t *testing.T) {
	for text, want := range map[string]uint64{"ab\xffc": 105, "\xc3": 103, "é\x80": 105, "now it is": 103, "\uFFFD": 103} {
		s := Scanner[[]byte]{text: []byte("123" + text), base: 100}
		s.notUTF8(3, len(s.text))
		var e *layout.FormatError
		if err := s.Err(); !errors.As(err, &e) || e.Offset != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestChanged reads a key again after its escape has become none.
func TestChanged(t *testing.T) {
	for _, to := range []string{`\u00zz"`, `\\\\\\\`, `"""""""`, "\x00\x00\x00\x00\x00\x00\x00"} {
		text := []byte(`"\u00e9b"`)
		s := Scanner[[]byte]{text: text}
		k := s.scanString()
		copy(text[1:], to)
		if got := s.stringAt(k); len(got) == 0 || len(got) > 3*len(text) {
			t.Errorf("%q: %q", to, got)
		}
	}
}
