package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asCommand makes the test's program the command itself.
const asCommand = "TENSORMAP_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// result is what a run of the command leaves.
type result struct {
	status         int
	stdout, stderr string
}

func tensormap(args ...string) result {
	return tensormapContext(context.Background(), args...)
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
	for _, r := range output {
		if r != '\n' && unprintable(r) {
			t.Errorf("output %q has a raw %U", output, r)
			return
		}
	}
}

// write makes a file in a directory of the test's own.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// safetensors puts a file together by hand.
func safetensors(t testing.TB, header string, data ...byte) string {
	t.Helper()
	content := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	content = append(content, header...)
	return write(t, "model.safetensors", append(content, data...))
}

func bytesUpTo(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// small has two tensors and metadata; its header is 240 bytes, so its data is at 248.
func small(t testing.TB) string {
	header := `{"__metadata__":{"format":"pt","note":"<a> & b"},` +
		`"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"b/bias":{"dtype":"I16","shape":[4],"data_offsets":[24,32]}}`
	return safetensors(t, header+strings.Repeat(" ", 240-len(header)), bytesUpTo(32)...)
}

const apr2Fixtures = "../../testdata/apr2/"
