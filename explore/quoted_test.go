package explore

import (
	"os/exec"
	"testing"
)

// TestQuoted: a shell reads what was quoted as it was, and a terminal gets no keys.
func TestQuoted(t *testing.T) {
	for _, arg := range []string{"", "a.b-c", "it's", `back\slash`, "$(x)`y`", "kill\x15line\n\x03", "\u202eit's \\ \u00e9\u200b", "\x1b[2J"} {
		got := quoted(arg)
		for _, r := range got {
			if isUnseen(r) {
				t.Errorf("%q: %q", arg, got)
				break
			}
		}
		out, err := exec.Command("bash", "-c", "printf %s "+got).Output()
		if err != nil {
			t.Skip(err) // no bash
		}
		if string(out) != arg {
			t.Errorf("%q: %q is %q", arg, got, out)
		}
	}
}
