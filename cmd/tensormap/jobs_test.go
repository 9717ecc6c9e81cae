package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

func TestJobsLimit(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	restore := jobs(before + 1).limit()
	if got := runtime.GOMAXPROCS(0); got != before+1 {
		t.Errorf("%d threads, want %d", got, before+1)
	}
	restore()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d threads afterwards, want %d", got, before)
	}
	jobs(0).limit()()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("no limit left %d threads of %d", got, before)
	}
}

// TestLongVerbsTakeJobs: whatever takes long can be told to leave cores alone.
func TestLongVerbsTakeJobs(t *testing.T) {
	for _, verb := range []string{"verify", "convert", "upgrade", "split", "merge", "stats", "hash", "diff"} {
		if help := done(t, "help", verb); !strings.Contains(help, "[-j N]") || !strings.Contains(help, "-j, --jobs N") {
			t.Errorf("%s has no -j", verb)
		}
	}
}

// TestOutputByAnotherName: no file is called by a format that it is not.
func TestOutputByAnotherName(t *testing.T) {
	in, dir := modeltest.Small(t), t.TempDir()
	misused := func(r result, says string) {
		t.Helper()
		if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("status %d, %q; want %d, %q", r.status, r.stderr, exitUsage, says)
		}
	}
	for _, name := range []string{"out.april", "out.APRIL", "out.tsm"} {
		misused(tensormap("convert", in, filepath.Join(dir, name)), "are not written, only apr2 (.apr), gguf (.gguf), safetensors (.safetensors)")
		misused(tensormap("merge", in, filepath.Join(dir, name)), "are not written, only apr2 (.apr), gguf (.gguf), safetensors (.safetensors)")
	}
	misused(tensormap("convert", in, filepath.Join(dir, "out.safetensors.index.json")), "give "+filepath.Join(dir, "out.safetensors")+", and --shard-size")
	empty(t, dir)
	done(t, "convert", in, filepath.Join(dir, "out.bin"), "--format=apr2", "-j1")
}
