package httprange_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/tensormap/tensormap/loader/httprange"
)

func TestReadsLikeAFile(t *testing.T) {
	content := noise(345)
	r := open(t, serve(t, content), quick())
	if r.Size() != int64(len(content)) || !strings.HasSuffix(r.Name(), "/dir/model.bin") {
		t.Errorf("%d bytes of %s", r.Size(), r.Name())
	}
	if err := iotest.TestReader(io.NewSectionReader(r, 0, r.Size()), content); err != nil {
		t.Error(err)
	}
	for _, size := range []int{0, 1, 99, 100, 101} { // about the prefix's
		small := noise(size)
		if b, err := readAll(open(t, serve(t, small), quick())); err != nil || !bytes.Equal(b, small) {
			t.Errorf("a file of %d bytes gives %d; %v", size, len(b), err)
		}
	}
}

func TestReadAtBounds(t *testing.T) {
	r := open(t, serve(t, noise(500)), quick())
	for _, test := range []struct {
		off  int64
		n    int
		want int
		err  error
	}{
		{0, 0, 0, nil}, {500, 0, 0, nil}, {499, 1, 1, nil}, {499, 2, 1, io.EOF}, {500, 1, 0, io.EOF}, {1 << 62, 1, 0, io.EOF},
	} {
		n, err := r.ReadAt(make([]byte, test.n), test.off)
		if n != test.want || err != test.err {
			t.Errorf("%d bytes at %d: %d, %v; want %d, %v", test.n, test.off, n, err, test.want, test.err)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset is read")
	}
	if err := r.ReadFull(t.Context(), make([]byte, 501), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("past the end: %v", err)
	}
}

// A read is one request, or one for each RequestBytes of a long range that the prefix lacks.
func TestReadFull(t *testing.T) {
	content := noise(5_000)
	s := serve(t, content)
	r := open(t, s, quick())
	before := s.requests.Load()
	got := make([]byte, 311)
	if err := r.ReadFull(t.Context(), got, 1_000); err != nil || !bytes.Equal(got, content[1_000:1_311]) {
		t.Error("other bytes", err)
	}
	if n := s.requests.Load() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	got = make([]byte, 4_900)
	if err := r.ReadFull(t.Context(), got, 50); err != nil || !bytes.Equal(got, content[50:4_950]) {
		t.Error("other bytes by several requests", err)
	}
	if !slices.Contains(s.ranges, "bytes=100-1099") || !slices.Contains(s.ranges, "bytes=4100-4949") {
		t.Errorf("requests for %q", s.ranges)
	}
}

// Nothing is fetched that was not asked for, and the prefix not again.
func TestTraffic(t *testing.T) {
	s := serve(t, noise(100_000))
	r := open(t, s, quick())
	r.ReadAt(make([]byte, 100), 0)
	r.ReadAt(make([]byte, 5_000), 50_000)
	if s.sent.Load() != 5_100 || s.requests.Load() != 6 {
		t.Errorf("%d bytes sent in %d requests", s.sent.Load(), s.requests.Load())
	}
}

func TestParallelIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, noise(20_000), "h1")
		most := s.countsAtOnce()
		opts := quick()
		opts.Parallel = 3
		r := open(t, s, opts)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := readAll(r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most() != 3 {
			t.Errorf("%d requests at once, want 3", most())
		}
	})
}

func TestHeader(t *testing.T) {
	s := serve(t, noise(1_000))
	s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("Authorization") == "Bearer x" && req.URL.RawQuery == "sig=secret" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	opts := quick()
	opts.Header = http.Header{"Authorization": {"Bearer x"}}
	if _, err := readAll(open(t, s, opts)); err != nil {
		t.Error(err)
	}
	_, err := httprange.Open(t.Context(), s.URL+"/x?token=secret", quick())
	if !errors.Is(err, httprange.ErrStatus) || strings.Contains(err.Error(), "secret") || s.requests.Load() > 5 {
		t.Errorf("without permission: %v after %d requests", err, s.requests.Load())
	}
}

// panicking is a transport that panics once it is told to.
type panicking struct {
	http.RoundTripper
	armed atomic.Bool
}

func (p *panicking) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.armed.Load() {
		panic("a transport of the caller's")
	}
	return p.RoundTripper.RoundTrip(req)
}

// TestClientPanics has the caller's client panic in whichever goroutine sends a request.
func TestClientPanics(t *testing.T) {
	transport := &panicking{RoundTripper: http.DefaultTransport}
	opts := quick()
	opts.Client = &http.Client{Transport: transport}
	content := noise(5_000)
	r := open(t, serve(t, content), opts)
	for range 3 { // more often than requests may run at once
		transport.armed.Store(true)
		func() {
			defer func() {
				if p := recover(); p != "a transport of the caller's" {
					t.Errorf("recovered %v", p)
				}
			}()
			r.ReadAt(make([]byte, 5_000), 0)
		}()
		transport.armed.Store(false)
		if b, err := readAll(r); err != nil || !bytes.Equal(b, content) {
			t.Errorf("afterwards: %d bytes, %v", len(b), err)
		}
	}
}
