package httprange_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// TestSmallWithoutRanges: of a file that the first request asks for wholly, no range is needed.
func TestSmallWithoutRanges(t *testing.T) {
	const prefix = 100 // of quick
	for _, test := range []struct {
		size   int
		header map[string]string
		want   error
	}{
		{size: 0}, {size: 1}, {size: prefix - 1}, {size: prefix},
		{prefix + 1, nil, httprange.ErrNoRanges},
		{50, map[string]string{"Content-Encoding": "gzip"}, httprange.ErrNoRanges},
		{50, map[string]string{"Transfer-Encoding": "chunked"}, httprange.ErrNoRanges}, // of unknown size
		{50, map[string]string{"Content-Encoding": "identity"}, nil},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			content := noise(test.size)
			s := serve(t, content)
			s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				w.Header().Set("Content-Length", strconv.Itoa(test.size))
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
				if w.Header().Get("Transfer-Encoding") != "" {
					w.Header().Del("Content-Length")
				}
				w.Write(content)
				return true
			}
			r, err := httprange.Open(t.Context(), s.URL, quick())
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if err != nil {
				return
			}
			defer r.Close()
			if b, err := readAll(r); err != nil || !bytes.Equal(b, content) || s.requests.Load() != 1 {
				t.Errorf("%d bytes of %d, %v, in %d requests", len(b), test.size, err, s.requests.Load())
			}
		})
	}
}

// TestSmallIsCut: what is short of the length that it was to have is asked for again.
func TestSmallIsCut(t *testing.T) {
	s := serve(t, noise(50))
	s.fault = func(n int64, w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Content-Length", "50")
		if n == 1 {
			w.Write(s.content[:20])
			http.NewResponseController(w).Flush()
			hangUp(w)
		} else {
			w.Write(s.content)
		}
		return true
	}
	if b, err := readAll(open(t, s, quick())); err != nil || !bytes.Equal(b, s.content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestUnsatisfiable: a file that is opened has not changed yet.
func TestUnsatisfiable(t *testing.T) {
	for _, status := range []int{http.StatusRequestedRangeNotSatisfiable, http.StatusPreconditionFailed} {
		s := serve(t, nil)
		s.fault = func(_ int64, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true }
		_, err := httprange.Open(t.Context(), s.URL, quick())
		if !errors.Is(err, httprange.ErrStatus) || errors.Is(err, httprange.ErrChanged) || s.requests.Load() != 1 {
			t.Errorf("%v after %d requests", err, s.requests.Load())
		}
	}
}

// TestCappedRanges: a server may offer less than it was asked for, which is no fault.
func TestCappedRanges(t *testing.T) {
	s := serve(t, noise(50_000))
	s.fault = capped(s, 5_000)
	opts := quick()
	opts.Attempts, opts.Pause, opts.RequestBytes = 1, time.Hour, 20_000
	r := open(t, s, opts)
	if b, err := readAll(r); err != nil || !bytes.Equal(b, s.content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestConnectionsAreKept, also if an answer does not say how long it is.
func TestConnectionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, noise(5_000), "h1")
		s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(s.content)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(s.content[first : last+1])
			http.NewResponseController(w).Flush() // so that it is in chunks
			rest(req, time.Millisecond)           // before the one that says that it is the last
			return true
		}
		r := open(t, s, quick())
		for off := int64(200); off < 4_000; off += 100 {
			if b := make([]byte, 900); !read(r, b, off) || !bytes.Equal(b, s.content[off:off+900]) {
				t.Fatalf("other bytes at %d", off)
			}
		}
		if n := s.dials.Load(); n != 1 {
			t.Errorf("%d connections for %d requests", n, s.requests.Load())
		}
	})
}

func read(r *httprange.Reader, b []byte, off int64) bool {
	n, err := r.ReadAt(b, off)
	return n == len(b) && err == nil
}

// TestSiblingsWaitTheirTurn: opening counts among the requests that run at once.
func TestSiblingsWaitTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, noise(500), "h1")
		most := s.countsAtOnce()
		opts := quick()
		opts.Parallel = 2
		r := open(t, s, opts)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if _, err := r.OpenSibling(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most() != 2 {
			t.Errorf("%d requests at once, want 2", most())
		}
	})
}

// TestCloseEndsOpenSibling: nothing begins beside a reader that has ended.
func TestCloseEndsOpenSibling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, noise(500), "h1")
		r := open(t, s, quick())
		s.fault = silence
		before := s.requests.Load()
		time.AfterFunc(20*time.Millisecond, func() { r.Close() })
		for range 2 {
			if _, err := r.OpenSibling(t.Context(), "x"); !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		}
		if n := s.requests.Load() - before; n > 1 {
			t.Errorf("%d requests", n)
		}
	})
}
