package httprange_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// cutAt sends answers of which only so many bytes come.
func cutAt(s *server, n int64) fault {
	return func(_ int64, w http.ResponseWriter, req *http.Request) bool {
		first, last := span(req)
		last = min(last, int64(len(s.content))-1)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(s.content)))
		w.Header().Set("Content-Length", strconv.FormatInt(last-first+1, 10))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(s.content[first:min(last+1, first+n)])
		panic(http.ErrAbortHandler)
	}
}

// TestFirstAnswerIsResumed: a server that cuts every answer off is asked for what has not come yet, from the first answer
// on. It was asked for bytes=0-131071 without end.
func TestFirstAnswerIsResumed(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(400_000), protocol)
		s.fault = cutAt(s, 40_000)
		r := open(t, s, nil)
		want := []string{"bytes=0-131071", "bytes=40000-131071", "bytes=80000-131071", "bytes=120000-131071"}
		if got := s.asked(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("asked for %q, want %q", got, want)
		}
		if b, err := readAll(r); err != nil || !bytes.Equal(b, s.content) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

// TestResumedIsOneVersion: what is resumed is of the version that has begun.
func TestResumedIsOneVersion(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(400_000), protocol)
		s.fault = func(n int64, w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, n))
			return cutAt(s, 40_000)(n, w, req)
		}
		if _, err := httprange.Open(t.Context(), s.URL, s.options(nil)); !errors.Is(err, httprange.ErrChanged) {
			t.Error(err)
		}
	})
}

// TestRepeatedBytesAreNoProgress: an answer that can only begin anew is asked for Options.Attempts times after the last one
// that has got further.
func TestRepeatedBytesAreNoProgress(t *testing.T) {
	const most = 1 << 20
	for name, read := range map[string]func(t *testing.T, s *server) error{
		"a file without ranges": func(t *testing.T, s *server) error {
			_, err := httprange.Open(t.Context(), s.URL, s.options(nil))
			return err
		},
		"an answer of an API": func(t *testing.T, s *server) error {
			_, _, err := httprange.Get(t.Context(), s.URL, most, s.options(nil))
			return err
		},
		"all of a file": func(t *testing.T, s *server) error {
			_, err := httprange.Download(t.Context(), s.URL, func(int64) (io.Writer, error) { return io.Discard, nil }, s.options(nil))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol string) {
				s := inBubble(t, noise(100_000), protocol)
				s.fault = func(n int64, w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Length", strconv.Itoa(len(s.content)))
					w.Write(s.content[:min(n, 3)*20_000])
					panic(http.ErrAbortHandler)
				}
				if err := read(t, s); err == nil || s.requests.Load() != 3+5 {
					t.Errorf("%v after %d requests", err, s.requests.Load())
				}
			})
		})
	}
}

// TestDownload: a file comes whole from a server without ranges, whatever it takes.
func TestDownload(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(100_000), protocol)
		s.fault = func(n int64, w http.ResponseWriter, req *http.Request) bool {
			if req.Header.Get("Range") != "" {
				t.Error("a range is asked for")
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(s.content)))
			w.Write(s.content[:min(n*30_000, int64(len(s.content)))])
			if n < 4 {
				panic(http.ErrAbortHandler)
			}
			return true
		}
		var got bytes.Buffer
		version, err := httprange.Download(t.Context(), s.URL, func(size int64) (io.Writer, error) {
			if size != int64(len(s.content)) {
				t.Errorf("%d bytes are promised", size)
			}
			got.Reset()
			return &got, nil
		}, s.options(nil))
		if err != nil || version != `"v1"` || !bytes.Equal(got.Bytes(), s.content) {
			t.Errorf("%d bytes of version %s: %v", got.Len(), version, err)
		}
		full := errors.New("full")
		if _, err := httprange.Download(t.Context(), s.URL, func(int64) (io.Writer, error) { return broken{full}, nil }, s.options(nil)); !errors.Is(err, full) {
			t.Error(err)
		}
		if n := s.requests.Load(); n != 5 {
			t.Errorf("%d requests: nobody can write what comes", n)
		}
	})
}

// broken is a writer that fails.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestRangeWithStatus200: a range is one by its Content-Range. A body that is not as long as that says is none.
func TestRangeWithStatus200(t *testing.T) {
	for name, test := range map[string]struct {
		body func(content []byte, first, last int64) []byte
		want error
	}{
		"the range":      {func(content []byte, first, last int64) []byte { return content[first : last+1] }, nil},
		"the whole file": {func(content []byte, _, _ int64) []byte { return content }, httprange.ErrResponse},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, noise(5_000))
			s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				last = min(last, int64(len(s.content))-1)
				body := test.body(s.content, first, last)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(s.content)))
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				w.Write(body)
				return true
			}
			r, err := httprange.Open(t.Context(), s.URL, quick())
			if !errors.Is(err, test.want) {
				t.Error(err)
			}
			if err != nil {
				return
			}
			defer r.Close()
			if b, err := readAll(r); err != nil || !bytes.Equal(b, s.content) {
				t.Errorf("%d of %d bytes, %v", len(b), len(s.content), err)
			}
		})
	}
}

// TestSignedAddressIsRefused: an address that a redirect has just led to is asked for again at its source, once: a proxy
// may have kept the redirect until the address had expired.
func TestSignedAddressIsRefused(t *testing.T) {
	content := noise(5_000)
	var signed, asked atomic.Int64
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if n := asked.Add(1); n == 1 || strings.HasSuffix(req.URL.Path, "/never") {
			http.Error(w, "Request has expired", http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
	}))
	defer storage.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, fmt.Sprintf("%s/%d%s", storage.URL, signed.Add(1), req.URL.Path), http.StatusFound)
	}))
	defer home.Close()
	r, err := httprange.Open(t.Context(), home.URL+"/once", quick())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := readAll(r); err != nil || !bytes.Equal(b, content) || signed.Load() != 2 {
		t.Errorf("%d bytes by %d signed addresses: %v", len(b), signed.Load(), err)
	}
	signed.Store(0)
	_, err = httprange.Open(t.Context(), home.URL+"/never", quick())
	var status *httprange.StatusError
	if !errors.As(err, &status) || status.Elsewhere != storage.URL || signed.Load() != 2 {
		t.Errorf("%v by %d signed addresses", err, signed.Load())
	}
}
