package remote_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// mounted returns a file system of its own, of a size as mount takes it. Mounting one wants privileges.
func mounted(t *testing.T, size string) (disk string) {
	t.Helper()
	disk = t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no file system of %s: %v", size, err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	return disk
}

// A disk that has no room: the model goes on from memory, and says so.
func TestFullDisk(t *testing.T) {
	h := hubtest.New(t, sharded())
	disk := mounted(t, "4m")
	t.Setenv("XDG_CACHE_HOME", disk+"/cache")
	t.Setenv("HF_HOME", disk+"/home")
	if err := os.MkdirAll(disk+"/cache", 0o777); err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	m = modeltest.Opened(t, m, err)
	w1, err := m.Tensor("w1")
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 1024)
	if err := w1.DequantizeRows(row, 5999, 1); err != nil {
		t.Fatal(err)
	}
	want(t, m, h, "w0", "w1", "w2", "w3")
	if err := w1.DequantizeRows(row, 17, 1); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "reading goes on without it") {
		t.Errorf("nothing is said: %s", log.String())
	}
	m.Close()
	<-m.Done()
	log = lockedBuffer{}
	opts := &remote.Options{Loader: &loader.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	if _, err := remote.Pull(t.Context(), "hf://org/model", opts); !errors.Is(err, syscall.ENOSPC) || log.String() != "" {
		t.Errorf("%v, after %q", err, log.String())
	}
	// What is there is right.
	m = open(t, "hf://org/model")
	want(t, m, h, "w1", "w3")
}

// A disk that has not a byte left, even for what a branch stands for.
func TestFullFromTheStart(t *testing.T) {
	h := hubtest.New(t, sharded())
	disk := mounted(t, "1m")
	t.Setenv("XDG_CACHE_HOME", disk+"/cache")
	t.Setenv("HF_HOME", disk+"/home")
	if err := os.WriteFile(disk+"/other", make([]byte, 2<<20), 0o666); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model"), h, "w0", "w3")
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// Incomplete files lie beside their final place if that is on another file system. The cache lists and prunes them.
func TestOtherFileSystem(t *testing.T) {
	h := hubtest.New(t, sharded())
	disk := mounted(t, "100m")
	t.Setenv("HF_HOME", disk+"/home")
	m := open(t, "hf://org/model")
	want(t, m, h, "w1")
	m.Close()
	var parts int
	for _, e := range entries(t) {
		if !e.Complete() && strings.HasPrefix(e.Path, disk) {
			parts++
		}
	}
	if parts != 3 {
		t.Errorf("%d incomplete files are listed, not 3", parts)
	}
	if p, err := remote.PruneCache(0, nil); err != nil || len(p.Removed) != 3 || p.Left != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil || !strings.HasPrefix(pulled.Path, disk) {
		t.Errorf("%v, %v", pulled, err)
	}
}
