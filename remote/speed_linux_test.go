package remote_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// measuring skips a measurement unless it is asked for: see make bench-remote.
func measuring(t *testing.T) {
	if os.Getenv("TENSORMAP_SPEED") == "" {
		t.Skip("TENSORMAP_SPEED is not set")
	}
}

// slow is a network on loopback: each answer begins after a delay, and all share a bandwidth.
type slow struct {
	delay time.Duration
	rate  float64 // bytes a second; 0 sets no limit

	mu   sync.Mutex
	free time.Time // when the bytes written so far have gone by
}

type slowWriter struct {
	http.ResponseWriter
	*slow
}

func (s *slow) network(w http.ResponseWriter) http.ResponseWriter {
	time.Sleep(s.delay)
	return &slowWriter{w, s}
}

func (w *slowWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		piece := b[:min(len(b), 64<<10)]
		if w.rate > 0 {
			w.mu.Lock()
			now := time.Now()
			if w.free.Before(now) {
				w.free = now
			}
			w.free = w.free.Add(time.Duration(float64(len(piece)) / w.rate * 1e9))
			until := w.free
			w.mu.Unlock()
			time.Sleep(time.Until(until) - 5*time.Millisecond) // or else each piece would be late
		}
		var wrote int
		wrote, err = w.ResponseWriter.Write(piece)
		n += wrote
		b = b[len(piece):]
	}
	return n, err
}

// median returns the median of seven runs of each, which alternate.
func median(t *testing.T, runs ...func() error) []time.Duration {
	t.Helper()
	const rounds = 7
	took := make([][]time.Duration, len(runs))
	for range rounds {
		for i, run := range runs {
			begun := time.Now()
			if err := run(); err != nil {
				t.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	medians := make([]time.Duration, len(runs))
	for i := range took {
		slices.Sort(took[i])
		medians[i] = took[i][rounds/2]
	}
	return medians
}

const speedBytes = 512 << 20

// TestSpeed compares what reading and pulling a large file takes with curl, and with sixteen plain requests
// where every answer takes 20 ms.
func TestSpeed(t *testing.T) {
	measuring(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "m.safetensors")
	data := make([]byte, speedBytes)
	for i := range data {
		data[i] = byte(i ^ i>>11)
	}
	content := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.U8, Shape: []int{speedBytes / 1024, 1024}, Data: data})
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		net := &slow{delay: delay}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if delay > 0 {
				net.network(w)
			}
			w.Header().Set("ETag", `"1"`)
			http.ServeFile(w, r, path)
		}))
		address := server.URL + "/m.safetensors"
		fresh := func() { os.RemoveAll(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap")) }
		curl := func(out string) func() error {
			return func() error {
				return exec.Command("sh", "-c", `curl -s -o "$1" "$2" && { test "$1" = /dev/null || sync "$1"; }`, "sh", out, address).Run()
			}
		}
		names := []string{"curl to nowhere", "curl, then sync", "16 plain requests", "read (httprange)", "pull (cached)"}
		took := median(t, curl("/dev/null"), curl(filepath.Join(t.TempDir(), "curl")), func() error { return plain(address, int64(len(content)), 16) },
			func() error { return readWhole(t.Context(), address) },
			func() error {
				fresh()
				_, err := remote.Pull(t.Context(), address, nil)
				return err
			})
		for i, name := range names {
			fmt.Printf("delay %v, %d MiB: %-18s %8.1f ms  %6.0f MB/s\n", delay, len(content)>>20, name, took[i].Seconds()*1e3, float64(len(content))/1e6/took[i].Seconds())
		}
		fmt.Printf("delay %v: read %.2f of curl, %.2f of 16 requests; pull %.2f of curl and sync\n", delay, took[0].Seconds()/took[3].Seconds(),
			took[2].Seconds()/took[3].Seconds(), took[1].Seconds()/took[4].Seconds())
		server.Close()
	}
}

// readWhole reads a file into memory, as the loader does what is not kept.
func readWhole(ctx context.Context, address string) error {
	r, err := httprange.Open(ctx, address, &httprange.Options{Parallel: 16})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.ReadAtContext(ctx, buffer(r.Size()), 0)
	return err
}

// memory is used again: what is measured is not the kernel's zeros.
var memory []byte

func buffer(n int64) []byte {
	memory = slices.Grow(memory[:0], int(n))
	return memory[:n]
}

// plain reads a file by n requests at once, of net/http alone.
func plain(address string, size int64, n int) error {
	dst := buffer(size)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	errs := make(chan error, n)
	each := (size + int64(n) - 1) / int64(n)
	for i := range int64(n) {
		go func() {
			lo, hi := i*each, min((i+1)*each, size)
			req, _ := http.NewRequest(http.MethodGet, address, nil)
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", lo, hi-1))
			resp, err := client.Do(req)
			if err == nil {
				_, err = io.ReadFull(resp.Body, dst[lo:hi])
				resp.Body.Close()
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// TestColdStart tells time and bytes from an address to the first row and to all tensors, over 20 ms and
// 100 MB/s, against hf download and opening. PYTHON_HUB names a Python with huggingface_hub.
func TestColdStart(t *testing.T) {
	measuring(t)
	const shards, each = 4, 64 << 20
	files := map[string][]byte{"config.json": []byte(`{"model_type": "bert"}`)}
	weights := []string{}
	for i := range shards {
		data := make([]byte, each)
		for j := range data {
			data[j] = byte(j*7 + i + j>>12)
		}
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		files[name] = modeltest.SafeTensors(modeltest.Tensor{Name: fmt.Sprint("w", i), DType: layout.U8, Shape: []int{each / 1024, 1024}, Data: data})
		weights = append(weights, fmt.Sprintf("%q: %q", fmt.Sprint("w", i), name))
	}
	files["model.safetensors.index.json"] = []byte(`{"metadata": {}, "weight_map": {` + strings.Join(weights, ", ") + `}}`)
	h := hubtest.New(t, files)
	net := &slow{delay: 20 * time.Millisecond, rate: 100e6}
	h.Network = net.network
	if resp, err := http.Get(h.URL + "/api/models/org/model/tree/" + h.Commit); err != nil { // it hashes its files
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	h.Take()
	sent := func() (total int64) {
		for _, r := range h.Take() {
			total += r.Bytes
		}
		return total
	}
	row := func(m *loader.Model) error {
		w, err := m.Tensor("w2")
		if err == nil {
			err = w.DequantizeRows(make([]float32, 1024), 5, 1)
		}
		return err
	}
	all := func(m *loader.Model) error {
		_, err := m.WarmAll(t.Context(), nil)
		return err
	}
	print := func(what string, d time.Duration) {
		fmt.Printf("%-44s %8.0f ms  %8.1f MB\n", what, d.Seconds()*1e3, float64(sent())/1e6)
	}
	for _, step := range []string{"cold", "again"} {
		begun := time.Now()
		m, err := remote.Open(t.Context(), "hf://org/model", nil)
		if err == nil {
			err = row(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		print("tensormap, "+step+": to the first row", time.Since(begun))
		if err := all(m); err != nil {
			t.Fatal(err)
		}
		print("tensormap, "+step+": to all tensors", time.Since(begun))
		m.Close()
		<-m.Done()
	}
	python := os.Getenv("PYTHON_HUB")
	if python == "" {
		t.Skip("PYTHON_HUB names no Python with huggingface_hub")
	}
	t.Setenv("HF_HOME", t.TempDir())
	out, err := exec.Command(python, "-c", `
import time
from huggingface_hub import snapshot_download
t = time.time()
path = snapshot_download("org/model")
print(time.time() - t, path)
`).Output()
	if err != nil {
		t.Fatal(err)
	}
	seconds, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	took, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	m, err := loader.Open(dir, nil)
	if err == nil {
		err = row(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	download := time.Duration(took * 1e9)
	print("hf download, then open: to the first row", download+time.Since(begun))
	if err := all(m); err != nil {
		t.Fatal(err)
	}
	print("hf download, then open: to all tensors", download+time.Since(begun))
	m.Close()
}
