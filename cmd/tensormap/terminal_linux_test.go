package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal of 80 columns. screen closes it and returns all that
// was written to it.
func terminal(t *testing.T) (tty *os.File, screen func() string) {
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
	tty, screen := terminal(t)
	var stderr strings.Builder
	status := run(context.Background(), []string{"dump", small(t), "a.weight"}, tty, &stderr)
	if out := screen(); status != exitUsage || out != "" || !strings.Contains(stderr.String(), "give -o OUT") {
		t.Errorf("status %d, screen %q, stderr %q", status, out, stderr.String())
	}
}

func TestTerminalTables(t *testing.T) {
	long := strings.Repeat("x", 100) + strings.Repeat("y", 100)
	file := safetensors(t, `{"`+long+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	for _, test := range []struct {
		noColor, term string
		color         bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		tty, screen := terminal(t)
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

func TestProgressBar(t *testing.T) {
	tty, screen := terminal(t)
	p := newProgress(tty, "working")
	p.update(0, 1000<<20) // too soon to be worth a bar
	time.Sleep(progressDelay)
	for done := range uint64(5) {
		p.update(done*100<<20, 1000<<20)
		time.Sleep(70 * time.Millisecond) // bars are drawn so often and no more
	}
	p.clear()
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
	var out strings.Builder
	p := newProgress(&out, "working")
	time.Sleep(progressDelay)
	p.update(1, 2)
	p.clear()
	if out.String() != "" {
		t.Errorf("%q", out.String())
	}
}

// TestWaitingNote: who looks at a terminal learns which server it is that does not answer.
func TestWaitingNote(t *testing.T) {
	for _, s := range []*site{stalled(t, nil), stalled(t, safetensorsOf(1<<20))} {
		tty, screen := terminal(t)
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

// TestWaiting: the word comes after three seconds without progress, and not with it.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		n := newWaiting(nil, "h", 0)
		n.w = &said
		wait := func(reads ...time.Duration) {
			var all sync.WaitGroup
			for _, d := range reads {
				all.Go(func() {
					n.during(func() error {
						time.Sleep(d)
						return nil
					})
				})
			}
			all.Wait()
		}
		for range 5 {
			wait(2 * time.Second)
		}
		wait(time.Second, 2*time.Second, 3*time.Second, 4*time.Second, 6*time.Second)
		if said.String() != "" {
			t.Errorf("%q", said.String())
		}
		wait(2*time.Second, 6*time.Second) // four seconds of nothing
		wait(10 * time.Second)
		if strings.Count(said.String(), "waiting for h …\n") != 2 {
			t.Errorf("%q", said.String())
		}
	})
}
