//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// TestSignals ends the command where it waits for a reader that never comes.
func TestSignals(t *testing.T) {
	file := small(t)
	for _, test := range []struct {
		name    string
		args    []string
		signals []syscall.Signal
		atOnce  bool
	}{
		{"convert", []string{"convert", file, fifo(t)}, []syscall.Signal{syscall.SIGTERM}, false},
		{"dump", []string{"dump", file, "a.weight", "-o", fifo(t)}, []syscall.Signal{syscall.SIGINT}, false},
		{"hangup", []string{"convert", file, fifo(t)}, []syscall.Signal{syscall.SIGHUP}, false},
		{"second", []string{"convert", file, fifo(t)}, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, true},
		{"nohup", []string{"convert", file, fifo(t)}, []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.name == "hangup" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("these tests were started under nohup, which the command would obey")
			}
			dir := t.TempDir()
			args := append([]string{os.Args[0]}, test.args...)
			if test.name == "nohup" {
				args = append([]string{"sh", "-c", `trap '' HUP; exec "$@"`, "sh"}, args...)
			}
			cmd, output := begin(t, dir, args)
			begun := time.Now()
			for i, s := range test.signals {
				if i > 0 {
					time.Sleep(100 * time.Millisecond) // signals at once have no order
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			err := cmd.Wait()
			took := time.Since(begun)
			if !failed(err) {
				t.Errorf("%v, want status %d\n%s", err, exitFailed, output)
			}
			if atOnce := took < grace; atOnce != test.atOnce {
				t.Errorf("took %v", took)
			}
			empty(t, dir)
		})
	}
}

// begin starts a process of the command, and waits until it has begun to work: until it has the
// temporary file of a profile in dir.
func begin(t *testing.T, dir string, args []string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	args = append(args, "--cpuprofile", filepath.Join(dir, "profile"))
	cmd, stderr = exec.Command(args[0], args[1:]...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { watchdog.Stop() })
	waitForFile(t, dir)
	return cmd, stderr
}

// failed reports whether err is that of a process that has ended as a failed one does.
func failed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitFailed
}

func waitForFile(t *testing.T, dir string) {
	t.Helper()
	for range 10_000 {
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the command has not begun")
}

// TestPipeWithoutReader: the reader of a result may go, that of a file may not.
func TestPipeWithoutReader(t *testing.T) {
	file := safetensors(t, `{"a":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}`, make([]byte, 1<<20)...)
	for _, args := range [][]string{{"convert", file}, {"dump", file, "a", "-o"}, {"dump", file, "a", "--as=raw", "-o"}} {
		path := fifo(t)
		go func() {
			if f, err := os.Open(path); err == nil {
				f.Close()
			}
		}()
		tensormap(append(args, path)...).failsWith(t, "tensormap: "+path+": broken pipe\n")
	}
}

func TestConvertMetadataFromPipe(t *testing.T) {
	path := fifo(t)
	out := filepath.Join(t.TempDir(), "out.apr")
	tensormap("convert", small(t), out, "--metadata", path).failsWith(t, path+": is a pipe, not a regular file")
	tensormap("convert", small(t), out, "--metadata", os.DevNull).failsWith(t, os.DevNull+": is a device, not a regular file")
}

// TestShrunkFileMessage: file and reason are said once, by the file's offset.
func TestShrunkFileMessage(t *testing.T) {
	file := safetensors(t, `{"a":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}`, make([]byte, 1<<20)...)
	for _, d := range dumpers {
		err := dumpShrunk(t, file, d.write)
		if err == nil {
			t.Fatalf("%s: no error", d.name)
		}
		msg := explain(err)
		if !strings.HasPrefix(msg, file+`: tensor "a": offset `) || strings.Count(msg, file) != 1 ||
			!strings.Contains(msg, ": memory fault") || strings.Contains(msg, "bad address") {
			t.Errorf("%s: %s", d.name, msg)
		}
	}
}
