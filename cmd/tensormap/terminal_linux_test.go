package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo terminal of 80 columns. screen closes it and returns all that
// was written to it.
func openTerminal(t *testing.T) (tty *os.File, screen func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24}); err != nil {
		t.Fatal(err)
	}
	output := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with EIO once the other side is closed
		output <- string(b)
	}()
	return tty, func() string {
		tty.Close()
		defer master.Close()
		return strings.ReplaceAll(<-output, "\r\n", "\n")
	}
}

func TestTerminalRefusesBinary(t *testing.T) {
	tty, screen := openTerminal(t)
	var stderr strings.Builder
	status := run(context.Background(), []string{"dump", modeltest.Small(t), "a.weight"}, tty, &stderr)
	if out := screen(); status != exitUsage || out != "" || !strings.Contains(stderr.String(), "give -o OUT") {
		t.Errorf("status %d, screen %q, stderr %q", status, out, stderr.String())
	}
}

func TestTerminalTables(t *testing.T) {
	long := strings.Repeat("x", 100) + strings.Repeat("y", 100)
	file := modeltest.WriteSafeTensors(t, `{"`+long+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	for _, test := range []struct {
		noColor, term string
		color         bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		tty, screen := openTerminal(t)
		if status := run(context.Background(), []string{"inspect", file}, tty, io.Discard); status != exitDone {
			t.Errorf("status %d", status)
		}
		out := screen()
		if color := strings.Contains(out, "\x1b["); color != test.color {
			t.Errorf("%+v: colour %v", test, color)
		}
		for _, line := range strings.Split(out, "\n") {
			if strings.Contains(line, "U8") && strings.Contains(line, "…") {
				if n := len([]rune(line)); n != 80 || !strings.HasPrefix(line, "xxxx") || !strings.Contains(line, "yyy  U8") {
					t.Errorf("%d columns: %q", n, line)
				}
				return
			}
		}
		t.Errorf("no shortened name in\n%s", out)
	}
}

// TestTerminalGroupsMany: on a terminal, layers of a model with many tensors share lines. Elsewhere each tensor has its own.
func TestTerminalGroupsMany(t *testing.T) {
	few, many := layersOf(t, 60), layersOf(t, 61)
	for _, test := range []struct {
		args     []string
		terminal bool
		grouped  bool
	}{
		{[]string{few}, true, false}, {[]string{many}, true, true}, {[]string{many}, false, false},
		{[]string{many, "--all"}, true, false}, {[]string{many, "--filter", "blk.[1-3].w"}, true, false},
		{[]string{many, "--sort", "name"}, true, true},
	} {
		var elsewhere strings.Builder
		out, shown := io.Writer(&elsewhere), elsewhere.String
		if test.terminal {
			tty, screen := openTerminal(t)
			out, shown = tty, screen
		}
		if status := run(t.Context(), append([]string{"inspect"}, test.args...), out, io.Discard); status != exitDone {
			t.Errorf("%q: status %d", test.args, status)
		}
		text := shown()
		if strings.Contains(text, "blk.{0..60}.w") != test.grouped || strings.Contains(text, "blk.2.w") == test.grouped ||
			strings.Contains(text, "61 (--all lists each)") != test.grouped {
			t.Errorf("%q on a terminal: %v\n%s", test.args, test.terminal, text)
		}
	}
}

// layersOf writes a model of n layers with a tensor each.
func layersOf(t *testing.T, n int) (path string) {
	tensors := make([]modeltest.Tensor, n)
	for i := range tensors {
		tensors[i] = modeltest.Random(fmt.Sprintf("blk.%d.w", i), layout.U8, 1)
	}
	return modeltest.Write(t, "model.safetensors", modeltest.SafeTensors(tensors...))
}

func TestProgressBar(t *testing.T) {
	tty, screen := openTerminal(t)
	synctest.Test(t, func(t *testing.T) {
		p := terminal.NewProgress(tty, "working")
		p.Update(0, 1000<<20) // too soon to be worth a bar
		time.Sleep(terminal.ProgressDelay)
		for done := range uint64(5) {
			p.Update(done*100<<20, 1000<<20)
			time.Sleep(70 * time.Millisecond) // bars are drawn so often and no more
		}
		p.Clear()
	})
	out := screen()
	for _, want := range []string{"working", "40%", "MiB/s", "━", "(400/1000 MiB, "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if at := strings.LastIndex(out, "\r"); strings.TrimSpace(strings.ReplaceAll(out[at:], "\x1b[K", "")) != "" {
		t.Errorf("the bar stays: %q", out[at:])
	}
}

func TestNoProgressElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := terminal.NewProgress(&out, "working")
		time.Sleep(terminal.ProgressDelay)
		p.Update(1, 2)
		p.Clear()
		if out.String() != "" {
			t.Errorf("%q", out.String())
		}
	})
}

// TestWaitingNote: who looks at a terminal learns which server it is that does not answer.
func TestWaitingNote(t *testing.T) {
	for _, s := range []*site{stalled(t, nil), stalled(t, safetensorsOf(1<<20))} {
		tty, screen := openTerminal(t)
		host := strings.TrimPrefix(s.URL, "http://")
		status := run(t.Context(), []string{"dump", "http://user:secret@" + host + "/m?secret", "a", "--timeout", "500ms"}, io.Discard, tty)
		out := screen()
		note := strings.Index(out, "\r\x1b[Kwaiting for "+host+" …\n")
		if note < 0 || strings.Count(out, "waiting") != 1 || strings.Contains(out, "secret") || strings.Index(out, "makes no progress") < note {
			t.Errorf("%q", out)
		}
		if status != exitFailed {
			t.Errorf("status %d", status)
		}
	}
}
