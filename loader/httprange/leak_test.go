package httprange_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// TestRedirectLoop: going around in circles is no fault that passes.
func TestRedirectLoop(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		http.Redirect(w, req, "/again?secret=hush", http.StatusFound)
	}))
	t.Cleanup(s.Close)
	_, err := httprange.Open(t.Context(), s.URL, &httprange.Options{Pause: time.Millisecond})
	if !errors.Is(err, httprange.ErrResponse) || strings.Contains(err.Error(), "hush") || requests.Load() > 10 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// TestRedirectAway: nobody is sent from https to what is not.
func TestRedirectAway(t *testing.T) {
	plain := serve(t, noise(500))
	for _, to := range []string{plain.URL, "ftp://host/x?secret=hush", "file:///etc/hush"} {
		var requests atomic.Int64
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}))
		t.Cleanup(s.Close)
		opts := quick()
		opts.Client = s.Client()
		opts.Client.CheckRedirect = httprange.CheckRedirect
		opts.Header = http.Header{"Authorization": {"hush"}}
		_, err := httprange.Open(t.Context(), s.URL, opts)
		if !errors.Is(err, httprange.ErrResponse) || strings.Contains(err.Error(), "hush") || requests.Load() != 1 || plain.requests.Load() != 0 {
			t.Errorf("%s: %v after %d requests", to, err, requests.Load())
		}
	}
}

// TestNothingStays: no goroutine outlives readers, however their reads ended.
func TestNothingStays(t *testing.T) {
	content := make([]byte, 1<<20)
	begin := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(req.Header.Get("Range"), "bytes=")+"/1048576")
		w.WriteHeader(http.StatusPartialContent)
	}
	ends := map[string]func(w http.ResponseWriter, req *http.Request){
		"whole": nil,
		"cut": func(w http.ResponseWriter, req *http.Request) {
			begin(w, req)
			panic(http.ErrAbortHandler)
		},
		"refused": func(w http.ResponseWriter, req *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"silent":  func(w http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
		"dripping": func(w http.ResponseWriter, req *http.Request) {
			begin(w, req)
			for req.Context().Err() == nil {
				if _, err := w.Write([]byte{0}); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		},
	}
	for name, answer := range ends {
		t.Run(name, func(t *testing.T) {
			s := serve(t, content)
			transport := &http.Transport{}
			before := runtime.NumGoroutine()
			opts := &httprange.Options{Client: &http.Client{Transport: transport}, Pause: time.Microsecond, Stall: 50 * time.Millisecond, PieceBytes: 100_000}
			if answer != nil {
				s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
					prefix := strings.HasPrefix(req.Header.Get("Range"), "bytes=0-")
					if !prefix {
						answer(w.(*counter).ResponseWriter, req)
					}
					return !prefix
				}
			}
			for range 3 {
				r, err := httprange.Open(t.Context(), s.URL, opts)
				if err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(200*time.Millisecond, func() { r.Close() })
				n, err := io.ReadFull(io.NewSectionReader(r, 0, r.Size()), make([]byte, r.Size()))
				if (err == nil) != (answer == nil) {
					t.Errorf("%d bytes, %v", n, err)
				}
				timer.Stop()
				r.Close()
			}
			transport.CloseIdleConnections()
			s.CloseClientConnections()
			s.Close()
			for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if n := runtime.NumGoroutine(); n > before {
				stacks := make([]byte, 1<<16)
				t.Errorf("%d goroutines, %d before:\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
			}
		})
	}
}
