package httprange_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/loader/httprange"
)

const (
	oldDate = "Fri, 20 Nov 2026 10:00:00 GMT"
	nextSec = "Fri, 20 Nov 2026 10:00:01 GMT"
	newDate = "Sat, 21 Nov 2026 10:00:00 GMT"
)

// said are headers of an answer; Date is newDate unless they say so.
type said map[string]string

// TestOneVersion: the bytes are of one version of the file, or there is an error, as far as
// the server says anything of versions.
func TestOneVersion(t *testing.T) {
	v1, v2 := noise(5_000), bytes.Repeat([]byte{2}, 5_000)
	for _, test := range []struct {
		name      string
		at, then  said // by Open, and later
		condition string
		strong    bool
		want      error
	}{
		{"strong ETag", said{"ETag": `"1"`}, said{"ETag": `"1"`}, `"1"`, true, nil},
		{"another", said{"ETag": `"1"`}, said{"ETag": `"2"`}, `"1"`, true, httprange.ErrChanged},
		{"lost", said{"ETag": `"1"`}, said{}, `"1"`, true, httprange.ErrChanged},
		{"lost, date kept", said{"ETag": `"1"`, "Last-Modified": oldDate}, said{"Last-Modified": oldDate}, `"1"`, true, httprange.ErrChanged},
		{"now weak", said{"ETag": `"1"`}, said{"ETag": `W/"1"`}, `"1"`, true, httprange.ErrChanged},
		{"another date", said{"ETag": `"1"`, "Last-Modified": oldDate}, said{"ETag": `"1"`, "Last-Modified": newDate}, `"1"`, true, nil},
		{"weak ETag", said{"ETag": `W/"1"`}, said{"ETag": `W/"1"`}, "", false, nil},
		{"another weak", said{"ETag": `W/"1"`}, said{"ETag": `W/"2"`}, "", false, httprange.ErrChanged},
		{"weak lost", said{"ETag": `W/"1"`}, said{}, "", false, httprange.ErrChanged},
		{"now strong", said{"ETag": `W/"1"`}, said{"ETag": `"1"`}, "", false, httprange.ErrChanged},
		{"without quotes", said{"ETag": `1`}, said{"ETag": `2`}, "", false, httprange.ErrChanged},
		{"weak and date", said{"ETag": `W/"1"`, "Last-Modified": oldDate}, said{"ETag": `W/"1"`, "Last-Modified": oldDate}, oldDate, true, nil},
		{"weak and another date", said{"ETag": `W/"1"`, "Last-Modified": oldDate}, said{"ETag": `W/"1"`, "Last-Modified": newDate}, oldDate, true, httprange.ErrChanged},
		{"weak, date lost", said{"ETag": `W/"1"`, "Last-Modified": oldDate}, said{"ETag": `W/"1"`}, oldDate, true, httprange.ErrChanged},
		{"weak lost, date kept", said{"ETag": `W/"1"`, "Last-Modified": oldDate}, said{"Last-Modified": oldDate}, oldDate, true, httprange.ErrChanged},
		{"date", said{"Last-Modified": oldDate}, said{"Last-Modified": oldDate}, oldDate, true, nil},
		{"date a second ago", said{"Last-Modified": oldDate, "Date": nextSec}, said{"Last-Modified": oldDate}, oldDate, true, nil},
		{"date of now", said{"Last-Modified": oldDate, "Date": oldDate}, said{"Last-Modified": oldDate}, oldDate, false, nil},
		{"date to come", said{"Last-Modified": nextSec, "Date": oldDate}, said{"Last-Modified": nextSec}, nextSec, false, nil},
		{"no date", said{"Last-Modified": "yesterday"}, said{"Last-Modified": "yesterday"}, "yesterday", false, nil},
		{"only another date", said{"Last-Modified": oldDate}, said{"Last-Modified": newDate}, oldDate, true, httprange.ErrChanged},
		{"date lost", said{"Last-Modified": oldDate}, said{}, oldDate, true, httprange.ErrChanged},
		{"ETag has come", said{"Last-Modified": oldDate}, said{"Last-Modified": oldDate, "ETag": `"1"`}, oldDate, true, httprange.ErrChanged},
		{"nothing", said{}, said{}, "", false, nil},
		{"something has come", said{}, said{"ETag": `"1"`}, "", false, httprange.ErrChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, v1)
			s.etag.Store("")
			content := v1
			if test.want != nil {
				content = v2
			}
			var opened atomic.Int64
			s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				header, content, condition := test.then, content, test.condition
				if strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") {
					header, content, condition = test.at, v1, ""
					opened.Add(1)
				}
				w.Header().Set("Date", newDate)
				for name, value := range header {
					w.Header().Set(name, value)
				}
				if got := req.Header.Get("If-Match") + req.Header.Get("If-Unmodified-Since"); got != condition {
					t.Errorf("the condition is %q, want %q", got, condition)
				}
				first, last := span(req)
				s.answer(w, first, last, content[first:last+1]) // whatever the condition
				return true
			}
			r := open(t, s, quick())
			if known := r.Version() != ""; known != test.strong {
				t.Errorf("version %q", r.Version())
			}
			b, err := readAll(r)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || err == nil && !bytes.Equal(b, v1) {
				t.Errorf("%v, want %v", err, test.want)
			}
			opts := quick()
			opts.RequireVersion = true
			before := opened.Load()
			r, err = httprange.Open(t.Context(), s.URL, opts)
			if n := opened.Load() - before; (err == nil) != test.strong || err != nil && !errors.Is(err, httprange.ErrUnversioned) || n != 1 {
				t.Errorf("with a version required: %v after %d requests", err, n)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// TestReplicas: servers behind one address that name one version in different ways are an
// error that says so.
func TestReplicas(t *testing.T) {
	s := serve(t, noise(5_000))
	s.fault = func(n int64, w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("ETag", map[int64]string{0: `"even"`, 1: `"odd"`}[n%2])
		first, last := span(req)
		s.answer(w, first, last, s.content[first:last+1])
		return true
	}
	_, err := readAll(open(t, s, quick()))
	if !errors.Is(err, httprange.ErrChanged) || !strings.Contains(err.Error(), `"\"odd\""`) || !strings.Contains(err.Error(), `"\"even\""`) {
		t.Error(err)
	}
}

// TestWholeIsOneVersion: a file that came by one answer needs no version of the server.
func TestWholeIsOneVersion(t *testing.T) {
	s := serve(t, noise(100))
	s.etag.Store("")
	opts := quick()
	opts.RequireVersion = true
	if b, err := readAll(open(t, s, opts)); err != nil || !bytes.Equal(b, s.content) {
		t.Error(err)
	}
}

// TestTotal: a file of another length is another version, where nothing else tells.
func TestTotal(t *testing.T) {
	s := serve(t, noise(5_000))
	s.etag.Store("")
	r := open(t, s, quick())
	s.content = noise(5_001)
	if _, err := readAll(r); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
}

// A caller who knows the version gets that one or none, from the first request on.
func TestKnownETag(t *testing.T) {
	content := bytes.Repeat([]byte("tensor"), 1000)
	s := serve(t, content)
	for etag, good := range map[string]bool{`"v1"`: true, `"v0"`: false} {
		r, err := httprange.Open(t.Context(), s.URL, &httprange.Options{Size: int64(len(content)), Version: etag})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p := make([]byte, 10)
		if _, err := r.ReadAt(p, 6); good && (err != nil || string(p) != "tensortens") || !good && !errors.Is(err, httprange.ErrChanged) {
			t.Errorf("%s: %q %v", etag, p, err)
		}
	}
}
