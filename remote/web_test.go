package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// site serves files with ETags of the test's, and counts.
type site struct {
	*httptest.Server
	sync.Mutex
	files    map[string][]byte // by path
	etag     string
	refuse   bool // HEAD, as an address does that is signed for GET
	requests int
	sent     int64
}

func newSite(t *testing.T, files map[string][]byte) *site {
	s := &site{files: files, etag: `"1"`}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Lock()
		defer s.Unlock()
		s.requests++
		content, ok := s.files[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
			return
		case r.Method == http.MethodHead && s.refuse:
			http.Error(w, "signed for GET", http.StatusForbidden)
			return
		}
		if s.etag != "" {
			w.Header().Set("ETag", s.etag)
		}
		c := &counted{ResponseWriter: w}
		http.ServeContent(c, r, "", time.Time{}, bytes.NewReader(content))
		s.sent += c.n
	}))
	t.Cleanup(s.Close)
	return s
}

type counted struct {
	http.ResponseWriter
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	return n, err
}

// take returns what was asked for since the last call.
func (s *site) take() (requests int, sent int64) {
	s.Lock()
	defer s.Unlock()
	requests, sent = s.requests, s.sent
	s.requests, s.sent = 0, 0
	return requests, sent
}

const webBytes = 3 << 20

func webModel(seed byte) []byte {
	data := make([]byte, webBytes)
	for i := range data {
		data[i] = byte(i*5+i>>13) + seed
	}
	return modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.U8, Shape: []int{webBytes / 1024, 1024}, Data: data})
}

func bytesOf(t *testing.T, m *loader.Model, name string) []byte {
	t.Helper()
	x, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b)
}

// Files of one length and date, which a parameter beside a signature tells apart, are not one.
func TestWebNeighbours(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	files := map[string][]byte{"1": webModel(1), "2": webModel(2)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(files[r.URL.Query().Get("id")]))
	}))
	t.Cleanup(s.Close)
	for id, content := range files {
		if !bytes.HasSuffix(content, bytesOf(t, open(t, s.URL+"/m.safetensors?sig=x&id="+id), "w")) {
			t.Error("bytes of another file")
		}
	}
}

// A pull that is interrupted ends at once, whatever its server does.
func TestWebInterrupted(t *testing.T) {
	s := newSite(t, map[string][]byte{"/m.safetensors": webModel(0)})
	asked, stop := make(chan struct{}, 8), make(chan struct{})
	var requests atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 { // after the file's beginning
			asked <- struct{}{}
			<-stop
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(stop) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := remote.Pull(ctx, silent.URL+"/m.safetensors", nil)
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A file in Azure's storage is the same one, whatever signs its address.
func TestWebAzure(t *testing.T) {
	s := newSite(t, map[string][]byte{"/m.safetensors": webModel(0)})
	for i := range 8 {
		bytesOf(t, open(t, fmt.Sprintf("%s/m.safetensors?sv=2024-%d&ss=b&srt=o&sp=r&st=%d&se=%[2]d&spr=https&sr=b&sig=%[2]d", s.URL, i, i)), "w")
		if _, sent := s.take(); i > 0 && sent > 0 {
			t.Errorf("signature %d: %d bytes", i, sent)
		}
	}
}

// What has come of a plain address stays, by its version. No secret of the address goes to the disk.
func TestWebCache(t *testing.T) {
	content := webModel(0)
	s := newSite(t, map[string][]byte{"/m.safetensors": content})
	for i, query := range []string{"?X-Amz-Signature=hush&v=1", "?X-Amz-Signature=other&v=1", "?v=1"} {
		m := open(t, s.URL+"/m.safetensors"+query)
		if !bytes.HasSuffix(content, bytesOf(t, m, "w")) {
			t.Error("other bytes than the server's")
		}
		m.Close()
		if requests, sent := s.take(); i == 0 && (requests > 3 || sent > int64(len(content))) || i > 0 && (requests != 1 || sent != 0) {
			t.Errorf("open %d: %d requests, %d bytes", i, requests, sent)
		}
	}
	s.refuse = true
	open(t, s.URL+"/m.safetensors?v=1")
	if requests, sent := s.take(); requests > 2 || sent > 256<<10 {
		t.Errorf("without HEAD %d requests, %d bytes", requests, sent)
	}
	open(t, s.URL+"/m.safetensors?v=2")
	if _, sent := s.take(); sent == 0 {
		t.Error("another file was taken from the cache")
	}
	filepath.WalkDir(os.Getenv("XDG_CACHE_HOME"), func(path string, e fs.DirEntry, _ error) error {
		text, _ := os.ReadFile(path)
		if strings.Contains(path, "hush") || bytes.Contains(text, []byte("hush")) {
			t.Errorf("a secret in %s", path)
		}
		return nil
	})
}

// TestWebHeadDiffers: a server may tell less by HEAD than by GET, or something else. What the cache has is used all the same.
func TestWebHeadDiffers(t *testing.T) {
	content := webModel(0)
	for name, header := range map[string][2]string{"no version": {"ETag", ""}, "another version": {"ETag", `"of HEAD"`}, "another length": {"Content-Length", "0"}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, map[string][]byte{"/m.safetensors": content})
			registered := s.Config.Handler
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.Header().Set("ETag", s.etag)
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					w.Header().Set(header[0], header[1])
					return
				}
				registered.ServeHTTP(w, r)
			})
			for i := range 3 {
				m := open(t, s.URL+"/m.safetensors")
				if !bytes.HasSuffix(content, bytesOf(t, m, "w")) {
					t.Error("other bytes than the server's")
				}
				m.Close()
				if _, sent := s.take(); i > 0 && sent > 256<<10 {
					t.Errorf("open %d: %d bytes", i, sent)
				}
			}
		})
	}
}

// A file that changes under its name is an error for what is open, and another file for the next.
func TestWebChanges(t *testing.T) {
	one, two := webModel(0), webModel(9)
	s := newSite(t, map[string][]byte{"/m.safetensors": one})
	m := open(t, s.URL+"/m.safetensors")
	s.Lock()
	s.files["/m.safetensors"], s.etag = two, `"2"`
	s.Unlock()
	x, _ := m.Tensor("w")
	if _, err := x.Bytes(); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
	next := open(t, s.URL+"/m.safetensors")
	if !bytes.HasSuffix(two, bytesOf(t, next, "w")) {
		t.Error("bytes of the old file")
	}
	s.Lock()
	s.files["/m.safetensors"], s.etag = one, `"1"`
	s.Unlock()
	if !bytes.HasSuffix(one, bytesOf(t, open(t, s.URL+"/m.safetensors"), "w")) {
		t.Error("bytes of the new file")
	}
}

// What no validator tells from other content is not kept, nor what the caller wants not to be.
func TestWebNotKept(t *testing.T) {
	for name, opts := range map[string]*remote.Options{"no validator": nil, "weak": nil, "no cache": {NoCache: true}} {
		t.Run(name, func(t *testing.T) {
			content := webModel(0)
			s := newSite(t, map[string][]byte{"/m.safetensors": content})
			s.etag = map[string]string{"weak": `W/"1"`, "no cache": `"1"`}[name]
			m, err := remote.Open(t.Context(), s.URL+"/m.safetensors", opts)
			m = modeltest.Opened(t, m, err)
			if !bytes.HasSuffix(content, bytesOf(t, m, "w")) {
				t.Error("other bytes than the server's")
			}
			if left, _ := os.ReadDir(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap")); len(left) != 0 {
				t.Errorf("kept %v", left)
			}
		})
	}
}

// A file is pulled with those beside it that say what its tensors mean.
func TestWebPullQuantized(t *testing.T) {
	files := make(map[string][]byte)
	for _, name := range []string{"model.safetensors", "config.json"} {
		text, err := os.ReadFile("../testdata/quantized/gptq-4bit/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["/a/"+name] = text
	}
	s := newSite(t, files)
	pulled, err := remote.Pull(t.Context(), s.URL+"/a/model.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pulled.Names, []string{"config.json", "model.safetensors"}) || filepath.Base(pulled.Path) != "model.safetensors" {
		t.Error(pulled)
	}
	m, err := loader.Open(pulled.Path, nil)
	w, err := modeltest.Opened(t, m, err).Tensor("model.layers.0.mlp.gate.weight")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Float32s(); err != nil {
		t.Error(err)
	}
}

// A model in several files is pulled to names, and opens without the server.
func TestWebPull(t *testing.T) {
	files := make(map[string][]byte)
	for name, b := range sharded() {
		files["/a/"+name] = b
	}
	s := newSite(t, files)
	pulled, err := remote.Pull(t.Context(), s.URL+"/a/model.safetensors.index.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, sent := s.take()
	if len(pulled.Files) != 5 || sent > 4*shardBytes+1<<20 {
		t.Errorf("%d bytes for %v", sent, pulled.Files)
	}
	for i, path := range pulled.Files {
		if want := filepath.Join(pulled.Path, filepath.FromSlash(pulled.Names[i])); path != want {
			t.Errorf("%s is called %s", path, pulled.Names[i])
		}
	}
	m, err := loader.Open(filepath.Join(pulled.Path, "model.safetensors.index.json"), nil)
	m = modeltest.Opened(t, m, err)
	if got := bytesOf(t, m, "w3"); !bytes.HasSuffix(files["/a/model-00004-of-00004.safetensors"], got) {
		t.Error("other bytes than the server's")
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	m = open(t, s.URL+"/a/model.safetensors.index.json")
	bytesOf(t, m, "w1")
	if requests, _ := s.take(); requests != 0 {
		t.Errorf("%d requests offline", requests)
	}
	if _, err := remote.Open(t.Context(), s.URL+"/a/model.fp16.safetensors", nil); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Error(err)
	}
}
