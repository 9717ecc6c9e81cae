package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// Models are opened, read, filled, pulled and closed at once, from a server that does what it likes: what comes is
// right or an error, and what is complete in the cache is right. It lasts as long as TENSORMAP_LIES says, or a second.
func TestLiesAtRandom(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		_, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, hubtest.Signed), "/")
		content, ok := h.Files[name]
		var lo, hi int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi); err != nil || !ok || rand.IntN(8) > 0 {
			return false
		}
		hi = min(hi+1, len(content))
		cut := lo + rand.IntN(hi-lo) + 1
		w.Header().Set("ETag", `"cdn-`+hubtest.Digest(content)[:16]+`"`)
		switch rand.IntN(14) {
		case 0:
			part(w, content, lo, cut, len(content))
		case 1:
			w.Header().Set("Content-Length", strconv.Itoa(hi-lo))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", lo, hi-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[lo:cut])
		case 2:
			w.Write(content)
		case 3:
			part(w, content, lo/2, lo/2+hi-lo, len(content))
		case 4:
			part(w, content, lo, hi, len(content)+1)
		case 5:
			w.WriteHeader(http.StatusInternalServerError)
		case 6:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 7:
			panic(http.ErrAbortHandler)
		case 8:
			w.WriteHeader(http.StatusForbidden)
		case 9:
			w.Header().Set("Location", h.CDN.URL+r.URL.RequestURI())
			w.WriteHeader(http.StatusFound)
		case 10:
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		case 11:
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprintf(w, "--x\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s\r\n--x--", lo, hi-1, len(content), content[lo:hi])
		case 12:
			w.WriteHeader(http.StatusNoContent)
		case 13:
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", lo, hi-1))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[lo:hi])
		}
		return true
	}
	lasts := time.Second
	if d, err := time.ParseDuration(os.Getenv("TENSORMAP_LIES")); err == nil {
		lasts = d
	}
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); {
		t.Setenv("HF_HOME", t.TempDir())
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for range 3 {
					use(t, h)
				}
			})
		}
		users.Wait()
		list, err := remote.Cache(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if err := e.Check(t.Context()); e.Complete() && err != nil {
				t.Error(err)
			}
		}
	}
}

// use pulls the Hub's model, or opens and reads it at random. What it gets is right or an error.
func use(t *testing.T, h *hubtest.Hub) {
	opts := &remote.Options{
		Fill: rand.IntN(2) == 0, NoCache: rand.IntN(6) == 0, Loader: &loader.Options{Logger: slog.New(slog.DiscardHandler)},
		HTTP: &httprange.Options{Pause: time.Millisecond, Attempts: 3, Timeout: 5 * time.Second},
	}
	if rand.IntN(5) == 0 {
		pulled, err := remote.Pull(t.Context(), "hf://org/model", opts)
		if err != nil {
			return
		}
		for i, file := range pulled.Files {
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, h.Files[pulled.Names[i]]) {
				t.Errorf("pulled %s: %v", file, err)
			}
		}
		return
	}
	m, err := remote.Open(t.Context(), "hf://org/model", opts)
	if err != nil {
		return
	}
	defer m.Close()
	var reads sync.WaitGroup
	for range 3 {
		reads.Go(func() {
			for range 3 {
				i := rand.IntN(4)
				content := h.Files[fmt.Sprintf("model-%05d-of-00004.safetensors", i+1)]
				off := rand.IntN(shardBytes)
				got := make([]byte, min(rand.IntN(300<<10)+1, shardBytes-off))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200)+1)*time.Millisecond)
				if err := readBytes(ctx, m, fmt.Sprint("w", i), got, off); err == nil && !bytes.Equal(got, content[len(content)-shardBytes+off:][:len(got)]) {
					t.Error("wrong bytes")
				}
				cancel()
			}
		})
	}
	reads.Wait()
}

// readBytes reads a part of a tensor, or all of it.
func readBytes(ctx context.Context, m *loader.Model, name string, p []byte, off int) error {
	lease, err := m.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	tensor, err := lease.Tensor(name)
	if err != nil {
		return err
	}
	if rand.IntN(2) == 0 {
		_, err := tensor.ReadAt(p, int64(off))
		return err
	}
	b, err := tensor.Bytes()
	if err == nil {
		copy(p, b[off:])
	}
	return err
}

// What a server has said wrong of a file's beginning does not stay: the next opening asks again.
func TestWrongBeginning(t *testing.T) {
	for _, pull := range []bool{false, true} {
		h := hubtest.New(t, sharded())
		for _, name := range []string{"model-00003-of-00004.safetensors", "model.safetensors.index.json"} {
			h.Lock()
			h.Large = 100 // the index comes from the CDN
			h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				var lo, hi int
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi); err != nil || !strings.HasSuffix(r.URL.Path, name) {
					return false
				}
				size := len(h.Files[name])
				part(w, bytes.Repeat([]byte{7}, size), lo, min(hi+1, size), size)
				return true
			}
			h.Unlock()
			if _, err := remote.Open(t.Context(), "hf://org/model", nil); err == nil {
				t.Fatal("opens")
			}
			h.Lock()
			h.Fault = nil
			h.Unlock()
			if pull {
				if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			m := openQuickly(t, "hf://org/model")
			want(t, m, h, "w0", "w2")
			m.Close()
			os.RemoveAll(os.Getenv("HF_HOME"))
			os.RemoveAll(os.Getenv("XDG_CACHE_HOME"))
		}
	}
}
