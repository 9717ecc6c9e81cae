package modeltest

import (
	"bytes"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// CountedResponse counts the bytes of a server's answer in N, before the client can know of them.
type CountedResponse struct {
	http.ResponseWriter
	N *atomic.Int64
}

// Write adds the length of b to N, and then sends b.
func (c CountedResponse) Write(b []byte) (int, error) {
	c.N.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// Unwrap returns the writer that http.ResponseController asks for.
func (c CountedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Recorder notes what handlers are asked.
type Recorder struct {
	mu        sync.Mutex
	answering int
	requests  []Request
}

// Request is what a handler was asked.
type Request struct {
	Host, Path, Range, Authorization string
	Header                           http.Header
	Bytes                            int64 // sent
}

// Record returns a handler that answers as h does.
func (r *Recorder) Record(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.answering++
		r.mu.Unlock()
		asked := Request{req.Host, req.URL.Path, req.Header.Get("Range"), req.Header.Get("Authorization"), req.Header.Clone(), 0}
		var sent atomic.Int64
		defer func() {
			asked.Bytes = sent.Load()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answering--
			r.requests = append(r.requests, asked)
		}()
		h.ServeHTTP(CountedResponse{w, &sent}, req)
	})
}

// Take returns the requests since the last call. It waits until none is being answered: a client may have all of an
// answer before its handler has ended. An answer that takes a second more is left for the next call.
func (r *Recorder) Take() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	for end := time.Now().Add(time.Second); r.answering > 0 && time.Now().Before(end); {
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
		r.mu.Lock()
	}
	taken := r.requests
	r.requests = nil
	return taken
}

// StartServer starts the server that command makes for a free port on loopback, and waits until it listens. It returns
// the address. The process ends with the test.
func StartServer(t testing.TB, command func(port string) *exec.Cmd) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := &url.URL{Scheme: "http", Host: l.Addr().String()}
	l.Close()
	cmd := command(address.Port())
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("server: %s", said.Bytes())
		}
	})
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address.Host)
		if err == nil {
			c.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
