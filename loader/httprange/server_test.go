package httprange_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// server serves one file, honestly but where fault, if set, answers in its place.
type server struct {
	*httptest.Server
	client   *http.Client                // nil for a server at a port
	cut      atomic.Pointer[atomic.Bool] // of the connections to come
	content  []byte
	etag     atomic.Value // string; none where empty
	fault    func(n int64, w http.ResponseWriter, req *http.Request) bool
	requests atomic.Int64
	dials    atomic.Int64
	sent     atomic.Int64

	mu     sync.Mutex
	ranges []string
}

func serve(t testing.TB, content []byte) *server {
	s := &server{content: content}
	s.etag.Store(`"v1"`)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// inBubble is serve within a bubble of synctest, where time passes only while everybody
// waits. The test fails if a goroutine of its stays.
func inBubble(t *testing.T, content []byte, protocol string) *server {
	return inBubbleBy(t, content, protocol, new(http.Transport))
}

// inBubbleBy is inBubble with a client's transport.
func inBubbleBy(t *testing.T, content []byte, protocol string, transport *http.Transport) *server {
	s := &server{content: content, Server: &httptest.Server{URL: "http://models.example"}}
	s.etag.Store(`"v1"`)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol == "h1")
	protocols.SetUnencryptedHTTP2(protocol == "h2")
	line := pipes{make(chan net.Conn), make(chan struct{})}
	web := &http.Server{Handler: s, Protocols: protocols}
	go web.Serve(line)
	transport.Protocols = protocols
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		s.dials.Add(1)
		c, err := line.dial(ctx)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: c, cut: s.cut.Load()}, nil
	}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		synctest.Wait() // for connections that nobody needs any more
		transport.CloseIdleConnections()
		web.Close()
	})
	return s
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wire is a connection that may be cut without either side hearing of it.
type wire struct {
	net.Conn
	cut *atomic.Bool // nil: never
}

func (w *wire) isCut() bool { return w.cut != nil && w.cut.Load() }

func (w *wire) Write(b []byte) (int, error) {
	if w.isCut() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	for {
		n, err := w.Conn.Read(b)
		if err != nil || !w.isCut() {
			return n, err
		}
	}
}

// countsAtOnce makes requests last, and counts the most that run at once.
func (s *server) countsAtOnce() (most func() int) {
	var mu sync.Mutex
	var now, peak int
	s.fault = func(_ int64, _ http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		now++
		peak = max(peak, now)
		mu.Unlock()
		rest(req, time.Second)
		mu.Lock()
		now--
		mu.Unlock()
		return false
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return peak
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := s.requests.Add(1)
	s.mu.Lock()
	s.ranges = append(s.ranges, req.Header.Get("Range"))
	s.mu.Unlock()
	if etag := s.etag.Load().(string); etag != "" {
		w.Header().Set("ETag", etag)
	}
	counted := &counter{w, &s.sent}
	if s.fault != nil && s.fault(n, counted, req) {
		return
	}
	http.ServeContent(counted, req, "", time.Time{}, bytes.NewReader(s.content))
}

// counter counts the bytes of bodies.
type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// asked returns the ranges that were asked for.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ranges)
}

// span is what a request asks for.
func span(req *http.Request) (first, last int64) {
	fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &first, &last)
	return first, last
}

// answer sends a 206 that claims bytes first to last, with a body of its own.
func (s *server) answer(w http.ResponseWriter, first, last int64, body []byte) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(s.content)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusPartialContent)
	w.Write(body)
}

// hangUp cuts the connection.
func hangUp(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	if conn, _, err := c.Hijack(); err == nil {
		conn.Close()
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// quick are options for tests: short pauses, small requests.
func quick() *httprange.Options {
	return &httprange.Options{RequestBytes: 1000, PrefixBytes: 100, Attempts: 3, Pause: time.Millisecond}
}

// impatient is quick, and takes a busy machine's silence for a fault.
func impatient() *httprange.Options {
	opts := quick()
	opts.Stall = 100 * time.Millisecond
	return opts
}

func open(t testing.TB, s *server, opts *httprange.Options) *httprange.Reader {
	t.Helper()
	r, err := httprange.Open(t.Context(), s.URL+"/dir/model.bin?sig=secret", s.options(opts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// options are opts for requests to s.
func (s *server) options(opts *httprange.Options) *httprange.Options {
	if s.client == nil {
		return opts
	}
	own := httprange.Options{}
	if opts != nil {
		own = *opts
	}
	own.Client = s.client
	return &own
}

func readAll(r *httprange.Reader) ([]byte, error) {
	b := make([]byte, r.Size())
	n, err := r.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}
