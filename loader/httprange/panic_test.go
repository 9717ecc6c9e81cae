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

// failing is a transport of the caller's that panics once it is told to, but for the last piece,
// which the goroutine of the caller fetches.
type failing struct {
	http.RoundTripper
	armed *atomic.Bool
}

var errTransport = errors.New("the caller's transport panicked")

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	if f.armed.Load() && !strings.HasSuffix(req.Header.Get("Range"), "-49999") {
		panic(errTransport)
	}
	return f.RoundTripper.RoundTrip(req)
}

// TestTransportPanics in a goroutine that fetches one of many pieces: the caller can recover, and
// the reader goes on.
func TestTransportPanics(t *testing.T) {
	content := noise(50_000)
	s := serve(t, content)
	opts := *s.options(quick())
	transport := http.DefaultTransport
	if opts.Client != nil && opts.Client.Transport != nil {
		transport = opts.Client.Transport
	}
	armed := new(atomic.Bool)
	opts.Client = &http.Client{Transport: failing{transport, armed}}
	r, err := httprange.Open(t.Context(), s.URL+"/model.bin", &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		armed.Store(true)
		func() {
			defer func() {
				if p := recover(); p != errTransport {
					t.Errorf("recovered %v", p)
				}
			}()
			readAll(r)
		}()
		armed.Store(false)
		if got, err := readAll(r); err != nil || !bytes.Equal(got, content) {
			t.Errorf("afterwards: %d bytes, %v", len(got), err)
		}
	}
}
