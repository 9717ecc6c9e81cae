package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/remote"
)

// childVariable has the address that a process of this test works on.
const childVariable = "REMOTE_TEST_CHILD"

func TestMain(m *testing.M) {
	if address := os.Getenv(childVariable); address != "" {
		if err := work(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work reads a tensor of the model, and then fetches all of it.
func work(address string) error {
	fmt.Println("begun")
	ctx, o := context.Background(), &remote.Options{}
	m, err := remote.Open(ctx, address, o)
	if err != nil {
		return err
	}
	defer m.Close()
	w, err := m.Tensor(fmt.Sprint("w", rand.IntN(4)))
	if err != nil {
		return err
	}
	if _, err := w.Bytes(); err != nil {
		return err
	}
	_, err = remote.Pull(ctx, address, o)
	return err
}

func child(address string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+address)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// kills is how many processes TestKilledFill kills; TENSORMAP_KILLS sets it.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("TENSORMAP_KILLS")); err == nil {
		return n
	}
	return 8
}

// TestKilledFill kills processes at random moments while they fill a cache. A chunk that the map claims is
// the server's, a final name has all of its bytes, and the next process goes on from there.
func TestKilledFill(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.Lock()
	h.Fault = func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // a network, for the moments to differ
		return false
	}
	h.Unlock()
	byID := make(map[string][]byte)
	for name, content := range h.Files {
		byID[hubtest.Digest(content)], byID[hubtest.BlobID(content)], byID["hf://org/model/"+name] = content, content, content
	}
	complete := make(map[string]bool)
	ends, whole := 0, time.Duration(0) // the time of a whole run, which the first tells
	for i := range kills() + 1 {
		cmd := child("hf://org/model")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 1))
		begun := time.Now()
		if i > 0 {
			time.Sleep(rand.N(whole))
			cmd.Process.Kill()
		}
		err = cmd.Wait()
		if i == 0 {
			whole = time.Since(begun)
		}
		chunks, blobs := claimed(t, byID, complete)
		t.Logf("%d: %v, %d chunks and %d files are there", i, err, chunks, blobs)
		if err == nil {
			ends++
			os.RemoveAll(os.Getenv("HF_HOME"))
			os.RemoveAll(os.Getenv("XDG_CACHE_HOME"))
			clear(complete)
		} else if stderr := cmd.Stderr.(*bytes.Buffer).String(); stderr != "" {
			t.Errorf("%d: %s", i, stderr)
		}
	}
	h.Lock()
	h.Fault = nil
	h.Unlock()
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range pulled.Files {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, h.Files[pulled.Names[i]]) {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Logf("%d of them came to their end", ends)
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*.data")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// claimed checks all that the caches claim to have. complete are the files that were complete before.
func claimed(t *testing.T, byID map[string][]byte, complete map[string]bool) (chunks, blobs int) {
	t.Helper()
	maps, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*.map"))
	for _, path := range maps {
		marks, err := os.ReadFile(path)
		base := strings.TrimSuffix(path, ".map")
		data, dataErr := os.ReadFile(base + ".data")
		if err != nil || dataErr != nil || len(marks) < 64 || !bytes.HasPrefix(marks, []byte("TMSPARSE")) {
			continue // killed before it began, or while it got its final name
		}
		const chunk = 64 << 10
		name, version, versioned := bytes.Cut(marks[min(len(marks), 64+(len(data)+chunk-1)/chunk):], []byte{0})
		content, ok := byID[string(name)]
		if !ok || len(content) != len(data) {
			t.Fatalf("%s, %q, has %d bytes", base, name, len(data))
		}
		for i := 0; i*chunk < len(data); i++ {
			if marks[64+i] != 1 {
				continue
			}
			if chunks++; !versioned || !bytes.HasSuffix(version, []byte("\x00")) {
				t.Errorf("%s: a chunk is claimed, but not its version: %q", base, version)
			}
			if end := min(len(data), (i+1)*chunk); !bytes.Equal(data[i*chunk:end], content[i*chunk:end]) {
				t.Errorf("%s: chunk %d is claimed and has other bytes", base, i)
			}
		}
	}
	final, _ := filepath.Glob(filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "blobs", "*"))
	for _, path := range final {
		id := filepath.Base(path)
		content, ok := byID[id]
		blobs++
		if got, err := os.ReadFile(path); err != nil || !ok || !bytes.Equal(got, content) {
			t.Errorf("%s is not the file of that digest: %v", path, err)
		}
		complete[id] = true
	}
	for id := range complete {
		if _, err := os.Stat(filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "blobs", id)); err != nil {
			t.Errorf("a complete file was lost: %v", err)
		}
	}
	return chunks, blobs
}

// TestTwoProcesses has two processes fetch a model at once: every byte comes once.
func TestTwoProcesses(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.Lock()
	h.Fault = func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(5 * time.Millisecond) // for them to meet
		return false
	}
	h.Unlock()
	var children []*exec.Cmd
	for range 2 {
		cmd := child("hf://org/model")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stderr)
		}
	}
	var total int64
	for name, content := range h.Files {
		if strings.HasPrefix(name, "model-") {
			total += int64(len(content))
		}
	}
	if _, _, _, sent := count(h.Take()); sent > total {
		t.Errorf("%d bytes sent for %d", sent, total)
	}
}
