package remote_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// A server that lies, in every way that it may: what a tensor hands out is right or an error, what is kept is
// right, and once the server is honest all is well.
func TestLiesOfEveryKind(t *testing.T) {
	const name = "model-00002-of-00004.safetensors"
	lies := map[string]func(w http.ResponseWriter, r *http.Request, content []byte, lo, hi int){
		"less than asked": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			part(w, content, lo, min(hi, lo+max((hi-lo)/2, 64<<10)), len(content))
		},
		"cut": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			w.Header().Set("Content-Length", strconv.Itoa(hi-lo))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", lo, hi-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[lo:min(hi, lo+max((hi-lo)/2, 64<<10))])
		},
		"all of it": func(w http.ResponseWriter, _ *http.Request, content []byte, _, _ int) { w.Write(content) },
		"another range": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			part(w, content, lo/2, lo/2+hi-lo, len(content))
		},
		"another length": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			part(w, content, lo, hi, len(content)+1)
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(content[lo:hi])
			z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", lo, hi-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(b.Bytes())
		},
		"changed": func(w http.ResponseWriter, _ *http.Request, content []byte, lo, hi int) {
			w.Header().Set("ETag", `"another"`)
			part(w, bytes.Repeat([]byte{7}, len(content)), lo, hi, len(content))
		},
	}
	for lie, tell := range lies {
		t.Run(lie, func(t *testing.T) {
			h := hubtest.New(t, sharded())
			m := openQuickly(t, "hf://org/model")
			h.Lock()
			h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				content := h.Files[name]
				if !strings.HasSuffix(r.URL.Path, name) {
					return false
				}
				var lo, hi int
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi); err != nil {
					return false
				}
				w.Header().Set("ETag", `"cdn-`+hubtest.Digest(content)[:16]+`"`)
				tell(w, r, content, lo, min(hi+1, len(content)))
				return true
			}
			h.Unlock()
			w1, err := m.Tensor("w1")
			if err != nil {
				t.Fatal(err)
			}
			got, err := w1.Bytes()
			if err == nil && !bytes.HasSuffix(h.Files[name], got) {
				t.Error("wrong bytes")
			}
			if wanted := lie == "less than asked" || lie == "cut"; (err == nil) != wanted {
				t.Errorf("%v", err)
			}
			m.Close()
			h.Lock()
			h.Fault = nil
			h.Unlock()
			want(t, openQuickly(t, "hf://org/model"), h, "w0", "w1", "w2")
		})
	}
}

func part(w http.ResponseWriter, content []byte, lo, hi, total int) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", lo, hi-1, total))
	w.WriteHeader(http.StatusPartialContent)
	w.Write(content[lo:hi])
}

func openQuickly(t *testing.T, address string) *loader.Model {
	t.Helper()
	m, err := remote.Open(t.Context(), address, &remote.Options{HTTP: &httprange.Options{Pause: time.Millisecond, Attempts: 3}})
	return modeltest.Opened(t, m, err)
}
