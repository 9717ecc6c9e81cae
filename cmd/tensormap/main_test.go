package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
)

// asCommand makes the test's program the command itself.
const asCommand = "TENSORMAP_TEST_AS_COMMAND"

// graceOf is the grace of such a command, if it is set.
const graceOf = "TENSORMAP_TEST_GRACE"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if d, err := time.ParseDuration(os.Getenv(graceOf)); err == nil {
			grace = d
		}
		main()
	}
	dir, err := os.MkdirTemp("", "tensormap-cache")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", dir) // not the user's
	runtime.MemProfileRate = 0       // a profile of all that tests allocate takes seconds to write
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// result is what a run of the command leaves.
type result struct {
	status         int
	stdout, stderr string
}

func tensormap(args ...string) result {
	return tensormapContext(context.Background(), args...)
}

// interruptible returns a context, and what ends it as a signal does.
func interruptible(t *testing.T) (ctx context.Context, interrupt func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(errInterrupted) }
}

func tensormapContext(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// done is the standard output of a run that must succeed.
func done(t testing.TB, args ...string) string {
	t.Helper()
	r := tensormap(args...)
	if r.status != exitDone {
		t.Fatalf("%q: status %d\n%s", args, r.status, r.stderr)
	}
	return r.stdout
}

// failsWith wants status 1, nothing on standard output, and one line on standard error
// that holds every part.
func (r result) failsWith(t testing.TB, parts ...string) {
	t.Helper()
	if r.status != exitFailed || r.stdout != "" {
		t.Errorf("status %d, stdout %.200q; want %d and nothing", r.status, r.stdout, exitFailed)
	}
	oneLine(t, r.stderr, parts...)
}

func oneLine(t testing.TB, stderr string, parts ...string) {
	t.Helper()
	if !strings.HasPrefix(stderr, "tensormap: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("stderr %q, want one line", stderr)
	}
	for _, part := range parts {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr %q does not say %q", stderr, part)
		}
	}
	plain(t, stderr)
}

// plain wants nothing that a terminal would obey.
func plain(t testing.TB, output string) {
	t.Helper()
	modeltest.Plain(t, output, report.Printable)
}

const apr2Fixtures = "../../testdata/apr2/"

func openFixture(path string) (*loader.Model, error) { return loader.Open(path, nil) }
