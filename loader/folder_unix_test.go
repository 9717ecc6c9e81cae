//go:build unix

package loader_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

func init() {
	notFiles["pipe"] = func(path string) error { return syscall.Mkfifo(path, 0o666) }
}

// TestFewDescriptors opens and reads a model of more shards than the process may have files.
func TestFewDescriptors(t *testing.T) {
	const shards = 400
	path := writeShards(t, t.TempDir(), nil, numbered(shards, 18)...)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = 150
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		m := openPath(t, path, opts)
		for range 2 {
			for x := range m.Tensors() {
				b := make([]float32, x.Elements())
				if err := x.Dequantize(b); err != nil {
					t.Fatalf("%+v: %v", opts, err)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTruncatedShard: a shard that shrinks once it is mapped is a fault, as any file is.
func TestTruncatedShard(t *testing.T) {
	dir := t.TempDir()
	big := modeltest.Random("f16", layout.F16, 64, 1024)
	m := openPath(t, writeShards(t, dir, nil, big), nil)
	x := tensor(t, m, "f16")
	if err := x.Dequantize(make([]float32, x.Elements())); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.Files()[0].Path, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for name, read := range readers {
		if err := read(x); !errors.Is(err, mmapio.ErrFault) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
