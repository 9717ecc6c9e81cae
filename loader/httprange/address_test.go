package httprange_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

func TestNotAnAddress(t *testing.T) {
	for _, address := range []string{
		"", "model.bin", "file:///etc/secret", "http://", "ftp://u:secret@host/x", "http://[::1/?sig=secret", "https:/x",
		"http://u:secret@ho st/x", "http://host:port/x?sig=secret", "http://h/x?sig=secret\x01",
	} {
		r, err := httprange.Open(t.Context(), address, quick())
		if err == nil || r != nil {
			t.Errorf("%q is opened", address)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Messages have the file's name, and neither user, password nor query.
func TestName(t *testing.T) {
	s := serve(t, noise(500))
	host := strings.TrimPrefix(s.URL, "http://")
	for address, want := range map[string]string{
		"http://secret:secret@" + host + "/a/b?secret#secret": s.URL + "/a/b",
		"http://secret@" + host + "/my%20model":               s.URL + "/my model",
		"http://" + host + "/a%0Ab":                           s.URL + "/a%0Ab",
		"http://" + host:                                      s.URL,
	} {
		r, err := httprange.Open(t.Context(), address, quick())
		if err != nil {
			t.Fatal(err)
		}
		if r.Name() != want {
			t.Errorf("%s is called %s, want %s", address, r.Name(), want)
		}
		r.Close()
		if _, err := r.ReadAt(make([]byte, 1), 5); !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), "read "+want+": offset 5: ") {
			t.Errorf("of a closed reader: %v", err)
		}
	}
}

// seen are the addresses that s is asked for, which tests here do one by one.
func seen(s *server) *atomic.Value {
	var last atomic.Value
	s.fault = func(_ int64, _ http.ResponseWriter, req *http.Request) bool {
		last.Store(req.URL.String())
		return false
	}
	return &last
}

func TestSibling(t *testing.T) {
	content := noise(1_000)
	s := serve(t, content)
	last := seen(s)
	for _, test := range []struct{ beside, name, want string }{
		{"/dir/model.bin?sig=secret", "model 2?.bin", "/dir/model%202%3F.bin?sig=secret"},
		{"/dir/model.bin", "a:b%20c", "/dir/a:b%2520c"},
		{"/a%2Fb//c/model.bin", "x", "/a%2Fb//c/x"},
		{"/model.bin", "..x", "/..x"},
		{"", "x", "/x"},
	} {
		r, err := httprange.Open(t.Context(), s.URL+test.beside, quick())
		if err != nil {
			t.Fatal(err)
		}
		before := s.sent.Load()
		x, err := r.OpenSibling(t.Context(), test.name)
		if err != nil || x.Size() != int64(len(content)) || last.Load() != test.want {
			t.Fatalf("%q beside %s: %v, want %s; %v", test.name, test.beside, last.Load(), test.want, err)
		}
		if n := s.sent.Load() - before; n != 25 { // a quarter of the other's
			t.Errorf("opening has read %d bytes", n)
		}
		b := make([]byte, x.Size())
		if _, err := x.ReadAt(b, 0); err != nil || !bytes.Equal(b, content) {
			t.Error(err)
		}
		if !strings.HasSuffix(x.Name(), test.name) {
			t.Errorf("%s for %q", x.Name(), test.name)
		}
		r.Close()
		if _, err := x.ReadAt(b, 0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("beside a closed reader: %v", err)
		}
	}
}

func TestNoSibling(t *testing.T) {
	s := serve(t, noise(500))
	r := open(t, s, quick())
	before := s.requests.Load()
	for _, name := range []string{"", ".", "..", "/", "/x", "../x", "x/y", "x/", "http://other/x"} {
		if _, err := r.OpenSibling(t.Context(), name); err == nil {
			t.Errorf("%q is opened", name)
		}
	}
	if n := s.requests.Load() - before; n > 0 {
		t.Errorf("%d requests", n)
	}
}

type contextKey struct{}

// A client may look for values in the context, such as that of a trace.
func TestContextValues(t *testing.T) {
	s := serve(t, noise(5_000))
	opts := quick()
	var without atomic.Int64
	opts.Client = &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Context().Value(contextKey{}) != "value" {
			without.Add(1)
		}
		return http.DefaultTransport.RoundTrip(req)
	})}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "value"))
	r, err := httprange.Open(ctx, s.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounded opening alone
	x, err := r.OpenSibling(context.WithValue(t.Context(), contextKey{}, "value"), "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []io.ReaderAt{r, x} {
		if _, err := r.ReadAt(make([]byte, 3_000), 1_000); err != nil {
			t.Error(err)
		}
	}
	if n := without.Load(); n > 0 {
		t.Errorf("%d requests without the value", n)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// What does not pass with time is not tried again.
func TestCertificate(t *testing.T) {
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // which is told of the handshake
	s.StartTLS()
	defer s.Close()
	opts := quick()
	opts.Pause = time.Minute
	_, err := httprange.Open(t.Context(), s.URL, opts)
	if !errors.As(err, new(*tls.CertificateVerificationError)) || connections.Load() != 1 {
		t.Errorf("%v after %d connections", err, connections.Load())
	}
}
