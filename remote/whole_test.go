package remote_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// simple serves files as Python's http.server does: whole, whatever range is asked for, with a date.
type simple struct {
	*httptest.Server
	sync.Mutex
	files    map[string][]byte
	modified time.Time // zero for none
	cut      int       // so many answers end in their middle
	sent     int       // bytes of the answers to GET that came to their end
	asked    []string
}

func newSimple(t *testing.T, files map[string][]byte) *simple {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := &simple{files: files, modified: time.Unix(1e9, 0)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Lock()
		defer s.Unlock()
		content, ok := s.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		if !s.modified.IsZero() {
			w.Header().Set("Last-Modified", s.modified.UTC().Format(http.TimeFormat))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if r.Method == http.MethodHead {
			return
		}
		if r.Header.Get("Range") == "" && s.cut > 0 {
			s.cut--
			w.Write(content[:len(content)/2])
			panic(http.ErrAbortHandler)
		}
		if n, err := w.Write(content); err == nil && r.Header.Get("Range") == "" {
			s.sent += n
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// take returns how many bytes were sent whole, and what was asked for, since the last call.
func (s *simple) take() (sent int, asked []string) {
	s.Lock()
	defer s.Unlock()
	sent, asked = s.sent, s.asked
	s.sent, s.asked = 0, nil
	return sent, asked
}

// TestPullWithoutRanges: a model comes whole from a server that answers no ranges, once for each version of its files.
func TestPullWithoutRanges(t *testing.T) {
	files := sharded()
	s := newSimple(t, files)
	address := s.URL + "/model.safetensors.index.json"
	opts := &remote.Options{HTTP: &httprange.Options{Pause: time.Millisecond}}
	if m, err := remote.Open(t.Context(), address, opts); !errors.Is(err, httprange.ErrNoRanges) || !strings.Contains(err.Error(), "pull downloads it whole") {
		t.Error(err)
		if err == nil {
			m.Close()
		}
	}
	s.take()
	s.cut = 2
	var total int
	pull := func() {
		t.Helper()
		pulled, err := remote.Pull(t.Context(), address, opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(pulled.Files) != 5 {
			t.Errorf("pulled %v", pulled.Files)
		}
		total = 0
		for i, path := range pulled.Files {
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, s.files[pulled.Names[i]]) {
				t.Errorf("%s: %v", path, err)
			}
			if strings.HasSuffix(path, ".safetensors") {
				total += len(got)
			}
		}
	}
	pull()
	if sent, asked := s.take(); sent != total {
		t.Errorf("%d bytes for %d: %v", sent, total, asked)
	}
	pull()
	if sent, asked := s.take(); sent != 0 {
		t.Errorf("%d bytes again: %v", sent, asked)
	}
	if got := bytesOf(t, open(t, address), "w2"); !bytes.HasSuffix(files["model-00003-of-00004.safetensors"], got) {
		t.Error("other bytes than the server's")
	}

	const changed = "model-00002-of-00004.safetensors"
	for _, modified := range []time.Time{time.Unix(1e9+5, 0), {}} { // then without a version
		s.Lock()
		s.modified = modified
		s.files[changed] = bytes.Clone(s.files[changed])
		s.files[changed][shardBytes]++
		s.Unlock()
		pull()
	}
	entries, err := remote.Cache(nil)
	verified := 0
	for _, e := range entries {
		if e.Check(t.Context()) == nil {
			verified++
		}
	}
	if err != nil || verified != 5 { // those without a version
		t.Errorf("digests of %d files: %v", verified, err)
	}
	left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*.data"))
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestPullWithoutRangesFails as the server or the disk does.
func TestPullWithoutRangesFails(t *testing.T) {
	s := newSimple(t, map[string][]byte{"m.safetensors": webModel(0)})
	s.cut = 1 << 20
	opts := &remote.Options{HTTP: &httprange.Options{Pause: time.Millisecond, Attempts: 3}}
	if _, err := remote.Pull(t.Context(), s.URL+"/m.safetensors", opts); err == nil || !strings.Contains(err.Error(), "/m.safetensors") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "blobs", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
