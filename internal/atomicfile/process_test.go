//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows

package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inProcess is the environment that makes a test act as one of its own processes.
const inProcess = "ATOMICFILE_TEST_PROCESS"

// process is a test that runs in a process of its own and does what it is told, a line at a time.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, arg string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), inProcess+"="+arg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, in, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	return p
}

func (p *process) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
}

func (p *process) hear(t *testing.T, want string) {
	t.Helper()
	if line, err := p.out.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("heard %q, %v, want %q", line, err, want)
	}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// obey does what lines of standard input say, in a process of its own, and answers each.
func obey(do func(line string) error) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := do(lines.Text()); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("done")
		}
	}
	os.Exit(0)
}

// TestCommitAllOfTwoProcesses lets two processes give their files the same names at the same
// time, over and over. Afterwards all files are of one of them.
func TestCommitAllOfTwoProcesses(t *testing.T) {
	names := strings.Fields("a b c d e f g h m")
	if text := os.Getenv(inProcess); text != "" {
		sys.sync, sys.syncDir = func(*os.File) error { return nil }, func(string) error { return nil } // which take long
		obey(func(dir string) error { return writeSet(dir, text, names...) })
	}
	one, two := start(t, "one"), start(t, "two")
	won := make(map[string]int)
	for range 60 {
		dir := t.TempDir()
		one.tell(t, dir)
		two.tell(t, dir)
		one.hear(t, "done")
		two.hear(t, "done")
		got := contents(t, dir)
		if !maps.Equal(got, each(got["m"], names...)) {
			t.Fatalf("a mixture: %v", got)
		}
		won[got["m"]]++
	}
	t.Log(won)
}

// TestSweep: what a killed process has left goes when the same model is written again, be it in
// more or in fewer shards. What a living process writes stays, as do the files of others.
func TestSweep(t *testing.T) {
	if path := os.Getenv(inProcess); path != "" {
		var f *File
		obey(func(line string) (err error) {
			switch line {
			case "create":
				f, err = CreateMember(path, "model.apr")
			case "prepare":
				err = f.Prepare()
			case "commit":
				err = f.Commit()
			}
			return err
		})
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	others := strings.Fields(".model.apr.tmp-user .model.apr.tmp-0123456 .model.apr.tmp-012345678 .model.tmp-01234567 .model2.apr.tmp-01234567")
	place(t, dir, others)
	place(t, dir, []string{".model.apr.tmp-01234567"}) // as of a commit that did not finish
	killed := start(t, path("model-00003-of-00006.apr"))
	writes, written := start(t, path("model.apr")), start(t, path("model-00001-of-00002.apr"))
	for _, p := range []*process{killed, writes, written} {
		p.tell(t, "create")
		p.hear(t, "done")
	}
	written.tell(t, "prepare")
	written.hear(t, "done")
	files(t, dir, len(others)+3) // the first has removed what was left before it
	killed.kill()
	files(t, dir, len(others)+3)
	f, err := CreateMember(path("model-00002-of-00004.apr"), "model.apr")
	if err != nil {
		t.Fatal(err)
	}
	files(t, dir, len(others)+3)
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
	for _, p := range []*process{writes, written} {
		p.tell(t, "commit")
		p.hear(t, "done")
	}
	files(t, dir, len(others)+2)
	for _, name := range append(others, "model.apr", "model-00001-of-00002.apr") {
		if _, err := os.Stat(path(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestSweepWaitsForNobody: while another process gives files their names, its old ones are
// not stale.
func TestSweepWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	aside := filepath.Join(dir, ".m.tmp-01234567")
	place(t, dir, []string{filepath.Base(aside)})
	lock, err := tryLock(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "m"), "new").Abort()
	holds(t, aside, "old")
	unlock(lock)
	write(t, filepath.Join(dir, "m"), "new").Abort()
	files(t, dir, 0)
}

// TestSweepFullDisk: a disk on which not even a lock can be made is swept all the same.
func TestSweepFullDisk(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, []string{".m.tmp-01234567", ".m.tmp-89abcdef"})
	real := sys
	defer func() { sys = real }()
	left := 1
	sys.lock = func(name string) (*os.File, error) {
		if left--; left >= 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errFull}
		}
		return real.lock(name)
	}
	f := write(t, filepath.Join(dir, "m"), "new")
	files(t, dir, 1)
	commit(t, f)
	files(t, dir, 1)
}

// TestLockLeft: a lock whose holder was killed keeps nobody waiting, and is removed.
func TestLockLeft(t *testing.T) {
	if path := os.Getenv(inProcess); path != "" {
		obey(func(string) error {
			_, err := tryLock(path)
			return err
		})
	}
	dir := t.TempDir()
	p := start(t, filepath.Join(dir, lockName))
	p.tell(t, "lock")
	p.hear(t, "done")
	defer func(d time.Duration) { waitLimit = d }(waitLimit)
	waitLimit = 0
	path := filepath.Join(dir, "f")
	err := write(t, path, "text").Commit()
	if pe, ok := err.(*fs.PathError); !ok || pe.Path != path || !errors.Is(err, errBusy) {
		t.Errorf("while another process has the lock: %v", err)
	}
	files(t, dir, 1)
	p.kill()
	commit(t, write(t, path, "text"))
	files(t, dir, 1)
	holds(t, path, "text")
}
