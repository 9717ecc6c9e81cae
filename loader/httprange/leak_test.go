package httprange_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
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
