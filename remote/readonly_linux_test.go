package remote_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/remote"
)

// A volume that cannot be written to serves what it has, in part and whole: as pods of a node mount it.
func TestReadOnlyCache(t *testing.T) {
	if os.Getuid() == 0 { // to whom nothing is read-only
		asNobody(t)
		return
	}
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	want(t, m, h, "w1") // whole when the model is closed
	w2, _ := m.Tensor("w2")
	row := make([]float32, 1024)
	if err := w2.DequantizeRows(row, 5, 1); err != nil {
		t.Fatal(err)
	}
	m.Close()
	readOnly(t, os.Getenv("HF_HOME"), os.Getenv("XDG_CACHE_HOME"))
	h.Take()
	for _, offline := range []string{"1", "0"} {
		t.Setenv("HF_HUB_OFFLINE", offline)
		m := open(t, "hf://org/model")
		want(t, m, h, "w1")
		if w2, _ := m.Tensor("w2"); w2.DequantizeRows(row, 5, 1) != nil {
			t.Error("a row that is there cannot be read")
		}
		if _, files, cdn, _ := count(h.Take()); files+cdn != 0 {
			t.Errorf("offline=%s: %d requests for data", offline, files+cdn)
		}
	}
	want(t, open(t, "hf://org/model"), h, "w3")
}

// readOnly takes the right to write from the folders, for the length of a test.
func readOnly(t *testing.T, dirs ...string) {
	t.Helper()
	set := func(file, dir os.FileMode) {
		for _, root := range dirs {
			filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					os.Chmod(path, dir)
				} else if err == nil && e.Type().IsRegular() {
					os.Chmod(path, file)
				}
				return nil
			})
		}
	}
	set(0o444, 0o555)
	t.Cleanup(func() { set(0o666, 0o777) })
}

// asNobody runs the test once more in a process without rights.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "test")
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run", "^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); errors.Is(err, fs.ErrPermission) {
		t.Skip(err)
	} else if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A process that holds the locks of the Hub's cache, as huggingface_hub does for as long as it downloads, keeps no model from
// opening and closing.
func TestHeldLocks(t *testing.T) {
	h := hubtest.New(t, sharded())
	locks := filepath.Join(os.Getenv("HF_HOME"), "hub", ".locks", "models--org--model")
	if err := os.MkdirAll(locks, 0o777); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for _, content := range h.Files {
		for _, id := range []string{hubtest.Digest(content), hubtest.BlobID(content)} {
			f, err := os.Create(filepath.Join(locks, id+".lock"))
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, f)
		}
	}
	m := open(t, "hf://org/model")
	want(t, m, h, "w1")
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	<-m.Done()
	for _, f := range held {
		f.Close()
	}
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil {
		t.Error(err)
	}
}
