package modeltest

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// CountedResponse counts the bytes of a server's answer in N, before the client can know of them.
type CountedResponse struct {
	http.ResponseWriter
	N *atomic.Int64
}

func (c CountedResponse) Write(b []byte) (int, error) {
	c.N.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// Unwrap returns the writer that http.ResponseController asks for.
func (c CountedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Recorder notes what handlers are asked.
type Recorder struct {
	mu        sync.Mutex
	answering atomic.Int64
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
		r.answering.Add(1)
		defer r.answering.Add(-1)
		asked := Request{req.Host, req.URL.Path, req.Header.Get("Range"), req.Header.Get("Authorization"), req.Header.Clone(), 0}
		var sent atomic.Int64
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			asked.Bytes = sent.Load()
			r.requests = append(r.requests, asked)
		}()
		h.ServeHTTP(CountedResponse{w, &sent}, req)
	})
}

// Take returns the requests since the last call. It waits a while for those that are being answered: a
// client may have all of an answer before its handler has ended.
func (r *Recorder) Take() []Request {
	for end := time.Now().Add(time.Second); r.answering.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.requests
	r.requests = nil
	return taken
}
