package httprange_test

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader/httprange"
)

func TestGet(t *testing.T) {
	failures := 2
	s := record(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/api":
			if failures--; failures >= 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("X-Repo-Commit", "abc")
			w.Write([]byte(`{"sha":"abc"}`))
		case "/part":
			w.WriteHeader(http.StatusPartialContent)
			w.Write([]byte("content"))
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
		default:
			w.Header().Set("X-Error-Code", "RepoNotFound")
			http.Error(w, "hush, no such repository", http.StatusNotFound)
		}
	})
	opts := quick()
	opts.Header = http.Header{"Authorization": {"Bearer hush"}}
	body, head, err := httprange.Get(t.Context(), s.URL+"/api", 13, opts)
	if err != nil || string(body) != `{"sha":"abc"}` || head.Get("X-Repo-Commit") != "abc" {
		t.Errorf("%q %v %v", body, head, err)
	}
	for _, req := range s.take() {
		if req.Header.Get("Range") != "" || req.Header.Get("Authorization") != "Bearer hush" {
			t.Errorf("asked with %v", req.Header)
		}
	}
	if _, _, err := httprange.Get(t.Context(), s.URL+"/api", 12, opts); !errors.Is(err, httprange.ErrResponse) {
		t.Error(err)
	}
	if _, _, err := httprange.Get(t.Context(), s.URL+"/packed", 12, opts); !errors.Is(err, httprange.ErrResponse) {
		t.Error(err)
	}
	if _, _, err := httprange.Get(t.Context(), s.URL+"/part", 12, opts); !errors.Is(err, httprange.ErrResponse) || !strings.HasSuffix(err.Error(), "unexpected status 206 Partial Content") {
		t.Error(err)
	}
	_, _, err = httprange.Get(t.Context(), s.URL+"/none", 12, opts)
	status := new(httprange.StatusError)
	if !strings.HasPrefix(err.Error(), "get "+s.URL+"/none: ") || strings.Contains(err.Error(), "offset") {
		t.Errorf("%v: an answer of an API has no offset", err)
	}
	if !errors.As(err, &status) || !errors.Is(err, fs.ErrNotExist) || status.Header.Get("X-Error-Code") != "RepoNotFound" || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}
