//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/internal/test/modeltest"
)

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo.apr")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// TestSignals ends the command where it waits for a reader that never comes.
func TestSignals(t *testing.T) {
	const short = 500 * time.Millisecond
	file := modeltest.Small(t)
	interrupt, term, hangUp := []syscall.Signal{syscall.SIGINT}, []syscall.Signal{syscall.SIGTERM}, []syscall.Signal{syscall.SIGHUP}
	for _, test := range []struct {
		name    string
		args    []string
		signals []syscall.Signal
		ends    []syscall.Signal
		grace   time.Duration
	}{
		{"convert", []string{"convert", file, fifo(t)}, term, term, short},
		{"dump", []string{"dump", file, "a.weight", "-o", fifo(t)}, interrupt, interrupt, short},
		{"hangup", []string{"convert", file, fifo(t)}, hangUp, hangUp, short},
		{"second", []string{"convert", file, fifo(t)}, slices.Concat(term, interrupt), slices.Concat(term, interrupt), time.Hour},
		{"nohup", []string{"convert", file, fifo(t)}, slices.Concat(hangUp, term), term, short},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{os.Args[0]}, test.args...)
			if test.name == "nohup" {
				args = append([]string{"sh", "-c", `trap '' HUP; exec "$@"`, "sh"}, args...)
			}
			for moment := time.Second; ; moment *= 2 {
				dir := t.TempDir()
				cmd, output := begin(t, dir, args, graceOf+"="+test.grace.String())
				waitsForReader(cmd.Process.Pid, moment)
				begun := time.Now()
				for _, s := range test.signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
				}
				err := cmd.Wait()
				took := time.Since(begun)
				// Signals that are sent at once have no order.
				if !slices.ContainsFunc(test.ends, func(s syscall.Signal) bool { return endedBy(err, s) }) {
					t.Errorf("%v, want the end by %v\n%s", err, test.ends, output)
				}
				if strings.Contains(output.String(), "interrupted") && moment < 10*time.Second {
					continue // it did not wait yet
				}
				empty(t, dir)
				if atOnce := test.grace == time.Hour; took < test.grace != atOnce {
					t.Errorf("took %v, and the grace is %v\n%s", took, test.grace, output)
				}
				return
			}
		})
	}
}

// begin starts a process of the command, and waits until it has begun to work: until it has the
// temporary file of a profile in dir.
func begin(t *testing.T, dir string, args []string, environment ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	args = append(args, "--cpuprofile", filepath.Join(dir, "profile"))
	cmd, stderr = exec.Command(args[0], args[1:]...), new(bytes.Buffer)
	cmd.Env = append(append(os.Environ(), asCommand+"=1"), environment...)
	cmd.Stderr = stderr
	startHearing(t, cmd)
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { watchdog.Stop() })
	waitForFile(t, dir)
	return cmd, stderr
}

// startHearing starts a process that ends by signals also if this one ignores them, as it does under nohup or
// in the background.
func startHearing(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, endingSignals...)
	err := cmd.Start()
	signal.Stop(heard)
	if err != nil {
		t.Fatal(err)
	}
}

// waitsForReader returns once a thread of a process waits for the other end of a pipe. Linux tells;
// elsewhere it returns after a moment, as it does if Linux will not tell.
func waitsForReader(pid int, moment time.Duration) {
	for end := time.Now().Add(moment); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
		for _, thread := range threads {
			if what, _ := os.ReadFile(thread); string(what) == "wait_for_partner" {
				return
			}
		}
	}
}

// endedBy reports whether err is that of a process that s has ended.
func endedBy(err error, s syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}

// TestInterruptEndsLoop: the shell's loop ends with the command that Ctrl-C has ended.
func TestInterruptEndsLoop(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	var loop atomic.Pointer[os.Process]
	var requests atomic.Int32
	started := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		<-started
		if requests.Add(1) > 1 {
			http.NotFound(w, req)
			return
		}
		syscall.Kill(-loop.Load().Pid, syscall.SIGINT) // as a terminal sends it, to all of the group
		<-req.Context().Done()
	}))
	cmd := exec.Command(bash, "-c", `for i in 1 2 3; do echo $i; "$@"; done; echo end`, "bash", os.Args[0], "inspect", s.URL)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	startHearing(t, cmd)
	loop.Store(cmd.Process)
	close(started)
	err = cmd.Wait()
	if !endedBy(err, syscall.SIGINT) || stdout.String() != "1\n" {
		t.Errorf("%v, stdout %q, stderr %q", err, &stdout, &stderr)
	}
	oneLine(t, stderr.String(), s.URL, "interrupted\n")
}

// TestHeadOfPipeline: a reader that goes early is no failure, and makes no noise.
func TestHeadOfPipeline(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	var header strings.Builder
	for i := range 10_000 { // more than a pipe holds
		fmt.Fprintf(&header, `,"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
	}
	file := modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}")
	for _, args := range [][]string{{"inspect", file}, {"inspect", file, "--json"}, {"map", file}, {"hash", file}, {"stats", file}} {
		cmd := exec.Command(bash, append([]string{"-c", `set -o pipefail; "$@" 2>&1 | head -n 1`, "bash", os.Args[0]}, args...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Count(out, []byte("\n")) != 1 || bytes.HasPrefix(out, []byte("tensormap: ")) {
			t.Errorf("%q: %v, %.200q", args, err, out)
		}
	}
}

// TestPipeWithoutReader: the reader of a result may go, that of a file may not.
func TestPipeWithoutReader(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}`, make([]byte, 1<<20)...)
	for _, args := range [][]string{{"convert", file}, {"dump", file, "a", "-o"}, {"dump", file, "a", "--as=raw", "-o"}} {
		path := fifo(t)
		go func() {
			if f, err := os.Open(path); err == nil {
				f.Close()
			}
		}()
		tensormap(append(args, path)...).failsWith(t, "tensormap: write "+path+": broken pipe\n")
	}
}

func TestConvertMetadataFromPipe(t *testing.T) {
	path := fifo(t)
	out := filepath.Join(t.TempDir(), "out.apr")
	tensormap("convert", modeltest.Small(t), out, "--metadata", path).failsWith(t, path+": is a named pipe, not a regular file")
	tensormap("convert", modeltest.Small(t), out, "--metadata", os.DevNull).failsWith(t, os.DevNull+": is a device, not a regular file")
}

// TestShrunkFileMessage: file and reason are said once, by the file's offset.
func TestShrunkFileMessage(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}`, make([]byte, 1<<20)...)
	for _, as := range slice.Formats {
		err := dumpShrunk(t, file, as)
		if err == nil {
			t.Fatalf("%s: no error", as)
		}
		msg := explain(err)
		if !strings.HasPrefix(msg, file+`: tensor "a": offset `) || strings.Count(msg, file) != 1 ||
			!strings.Contains(msg, ": memory fault") || strings.Contains(msg, "bad address") {
			t.Errorf("%s: %s", as, msg)
		}
	}
}
