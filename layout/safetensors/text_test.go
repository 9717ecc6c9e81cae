package safetensors

import (
	"errors"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestNotUTF8 finds the byte, if it is still there: a mapped header can have changed since it
// was found to be no text.
func TestNotUTF8(t *testing.T) {
	s := scanner{base: 100}
	for text, at := range map[string]uint64{"ab\xffc": 105, "\xc3": 103, "é\x80": 105, "now it is": 103, "\uFFFD": 103, "": 103} {
		var e *layout.FormatError
		if err := s.notUTF8(3, []byte(text)); !errors.As(err, &e) || e.Offset != at {
			t.Errorf("%q: %v", text, err)
		}
	}
}
