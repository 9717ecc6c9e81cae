//go:build unix

package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// TestInterrupted ends verbs in the middle of their work: they end soon and leave nothing.
func TestInterrupted(t *testing.T) {
	model := largeModel(t)
	for _, test := range []struct {
		name string
		args []string // OUT is in a directory of its own
	}{
		{"convert", []string{"convert", model, "OUT.apr"}},
		{"to SafeTensors", []string{"convert", model, "OUT.safetensors"}},
		{"re-encoding", []string{"convert", model, "OUT.apr", "--dtype", "q8_0"}},
		{"looking for a scale", []string{"convert", model, "OUT.apr", "--dtype", "i8"}},
		{"only that", []string{"convert", model, "OUT.apr", "--dtype", "i8", "--dry-run"}},
		{"compressing", []string{"convert", model, "OUT.apr", "--compress"}},
		{"shards", []string{"convert", model, "OUT.apr", "--shard-size", "20MB"}},
		{"SafeTensors shards", []string{"convert", model, "OUT.safetensors", "--shard-size", "20MB"}},
		{"split", []string{"split", model, "OUT.apr", "--shard-size", "20MB"}},
		{"merge", []string{"merge", model, "OUT.apr"}},
		{"dump", []string{"dump", model, "0", "-o", "OUT"}},
		{"dump raw", []string{"dump", model, "0", "--as", "raw", "-o", "OUT"}},
		{"dump npy", []string{"dump", model, "0", "--as", "npy", "-o", "OUT"}},
		{"dump text", []string{"dump", model, "0", "--as", "text", "-o", "OUT"}},
		{"dump slice", []string{"dump", model, "0[:, 1:]", "-o", "OUT"}},
		{"stats", []string{"stats", model}},
		{"hash", []string{"hash", model}},
		{"diff", []string{"diff", model, model, "--tolerance", "0"}},
		{"verify", []string{"verify", model}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
				interruptInTime(t, s, test.args)
			}
		})
	}
}

// interruptInTime interrupts the command at a random moment: an earlier one if it was done before,
// or waited for the disk, where nothing but the end of the grace could end it.
func interruptInTime(t *testing.T, s syscall.Signal, args []string) {
	for wait := 80 * time.Millisecond; wait > time.Microsecond; wait /= 2 {
		if interrupt(t, s, args, rand.N(wait)) {
			return
		}
	}
	t.Errorf("%q was never ended by %v", args, s)
}

// interrupt reports whether the command ended because it was asked to.
func interrupt(t *testing.T, s syscall.Signal, args []string, after time.Duration) bool {
	dir := t.TempDir()
	args = inDirectory(dir, args)
	cmd, stderr := begin(t, t.TempDir(), append([]string{os.Args[0]}, args...))
	time.Sleep(after)
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if err == nil {
		return false
	}
	if !endedBy(err, s) {
		t.Errorf("%q %v after %v: %v\n%s", args, s, after, err, stderr)
	}
	if !strings.Contains(stderr.String(), "interrupted") { // the work was done, or the grace over
		noTemporaries(t, dir)
		return false
	}
	empty(t, dir)
	oneLine(t, stderr.String(), "interrupted\n")
	return true
}

func noTemporaries(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func inDirectory(dir string, args []string) []string {
	in := make([]string, len(args))
	for i, arg := range args {
		if name, ok := strings.CutPrefix(arg, "OUT"); ok {
			arg = filepath.Join(dir, "out"+name)
		}
		in[i] = arg
	}
	return in
}

// largeModel is an APR2 file of one large and several smaller tensors, with checksums, that takes
// next to nothing on the disk.
func largeModel(t *testing.T) string {
	t.Helper()
	sizes := []uint64{128 << 20}
	for range 8 {
		sizes = append(sizes, 16<<20)
	}
	var tensors []layout.Tensor
	for i, n := range sizes {
		tensors = append(tensors, layout.Tensor{Name: []byte(strconv.Itoa(i)), DType: layout.F32, Shape: []int{int(n / 4096), 1024}})
	}
	path := filepath.Join(t.TempDir(), "zeros.apr")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(sparse{f}, slices.Values(tensors), nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for _, n := range sizes {
		err := w.WriteTensorFunc(func(dst io.Writer) error {
			for range n / uint64(len(zeros)) {
				if _, err := dst.Write(zeros); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// sparse leaves holes where there are long runs of zeros.
type sparse struct{ f *os.File }

func (s sparse) Write(b []byte) (int, error) {
	if len(b) >= 1<<20 && bytes.Count(b, []byte{0}) == len(b) {
		_, err := s.f.Seek(int64(len(b)), io.SeekCurrent)
		return len(b), err
	}
	return s.f.Write(b)
}
