package dequant

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/testmode"
)

// TestNoBoundsChecks compiles the package and expects the compiler to have proved every index
// of the portable loops.
func TestNoBoundsChecks(t *testing.T) {
	if testmode.Brief() {
		t.Skip("runs the go command")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(goTool, "build", "-gcflags=-d=ssa/check_bce/debug=1", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Checks that must be there show that the compiler reports any.
	if !strings.Contains(string(out), "expand.go") {
		t.Fatalf("no bounds check reported in expand.go:\n%s", out)
	}
	for _, found := range regexp.MustCompile(`(?m)^.*_generic\.go:.*$`).FindAllString(string(out), -1) {
		t.Error(found)
	}
}
