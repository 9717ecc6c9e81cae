package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// onTerminal is what a run shows on a terminal of 80 columns.
func onTerminal(t *testing.T, args ...string) (status int, shown, stderr string) {
	t.Helper()
	tty, screen := openTerminal(t)
	var b strings.Builder
	status = run(context.Background(), args, tty, &b)
	return status, screen(), b.String()
}

func TestTerminalShowsSlices(t *testing.T) {
	file := modeltest.CountingInts(t, []int{2, 100})
	for _, args := range [][]string{{"x[:, :90]"}, {"x[:, :90]", "--as", "text"}, {"x", "--as", "text"}} {
		status, shown, _ := onTerminal(t, append([]string{"dump", file}, args...)...)
		lines := strings.Split(strings.TrimRight(shown, "\n"), "\n")
		if status != exitDone || !strings.HasPrefix(lines[0], "# x  I32  2×") {
			t.Errorf("%q: status %d, %q", args, status, shown)
		}
		begun := 0
		for _, line := range lines[1:] {
			if len(line) > 80 {
				t.Errorf("%q: a line of %d: %q", args, len(line), line)
			}
			if !strings.HasPrefix(line, slice.Continued) {
				begun++
			}
		}
		if begun != 2 || len(lines) < 10 {
			t.Errorf("%q: %d rows in %d lines:\n%s", args, begun, len(lines), shown)
		}
	}
	// Where nobody looks, a row is a line.
	if got := done(t, "dump", file, "x[:, :90]", "--as", "text"); strings.Count(got, "\n") != 3 {
		t.Errorf("\n%s", got)
	}
}

func TestTerminalRefusesPictures(t *testing.T) {
	file := modeltest.CountingInts(t, []int{2})
	for _, args := range [][]string{{"map", file}, {"dump", file, "x[0]", "--as", "f32"}, {"dump", file, "x[0]", "--as", "npy"}, {"dump", file, "x"}} {
		status, shown, stderr := onTerminal(t, args...)
		if status != exitUsage || shown != "" || !strings.Contains(stderr, "a terminal cannot show") {
			t.Errorf("%q: status %d, %q, %q", args, status, shown, stderr)
		}
	}
	named := modeltest.WriteSafeTensors(t, `{"x[0]":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	if status, shown, _ := onTerminal(t, "dump", named, "x[0]"); status != exitUsage || shown != "" {
		t.Errorf("a tensor that is called so: status %d, %q", status, shown)
	}
}

func TestTerminalTree(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	name := strings.Repeat("encoder.", 4) + strings.Repeat("x", 100)
	file := modeltest.WriteSafeTensors(t, `{"`+name+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2)
	status, shown, _ := onTerminal(t, "inspect", file, "--tree")
	if status != exitDone || !strings.Contains(shown, "\x1b[1m") || !strings.Contains(shown, "…") {
		t.Errorf("status %d\n%s", status, shown)
	}
	t.Setenv("NO_COLOR", "1")
	if _, shown, _ := onTerminal(t, "inspect", file, "--tree"); strings.Contains(shown, "\x1b[") {
		t.Errorf("colours:\n%q", shown)
	}
	var b strings.Builder
	if run(context.Background(), []string{"inspect", file, "--tree"}, &b, io.Discard); !strings.Contains(b.String(), name) {
		t.Errorf("shortened where it is not shown:\n%s", b.String())
	}
}
