//go:build unix

package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// A site serves one file, and from some request on not honestly.
type site struct {
	mu        sync.Mutex
	rng       *rand.Rand
	calm      int
	lie       string
	validator string // "etag", "weak", "date", "both"
	old, new  []byte
	moved     atomic.Bool // the file has been replaced
	lied      atomic.Bool
	leaked    atomic.Pointer[string]
	elsewhere string // another origin
}

// deceits are what a server may do.
var deceits = []string{
	"status", "cut", "long", "wrong range", "wrong total", "wrong length", "whole", "no range", "multipart", "gzip", "drip", "stall", "hang up",
	"retry after", "redirect", "redirect away", "redirect loop", "change", "change, no validator", "noise in headers",
}

const secret = "secret-of-this-origin"

var modified = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

func (s *site) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	honest := s.calm > 0 || s.rng.IntN(3) == 0
	s.calm--
	seed := s.rng.Uint64()
	s.mu.Unlock()
	if strings.HasPrefix(s.lie, "change") && !honest {
		s.moved.Store(true)
	}
	content, tag, date := s.old, "one", modified
	if s.moved.Load() {
		content, tag, date = s.new, "two", modified.Add(time.Hour)
	}
	h := w.Header()
	if s.lie != "change, no validator" || !s.moved.Load() {
		switch s.validator {
		case "etag":
			h.Set("ETag", `"`+tag+`"`)
		case "weak":
			h.Set("ETag", `W/"`+tag+`"`)
		case "both": // a weak tag that stays while the date changes
			h.Set("ETag", `W/"same"`)
		}
	}
	if s.validator == "etag" || s.validator == "weak" || s.lie == "change, no validator" && s.moved.Load() {
		date = time.Time{}
	}
	if honest || strings.HasPrefix(s.lie, "change") || s.lied.Load() && strings.HasPrefix(s.lie, "redirect") && strings.HasPrefix(req.URL.Path, "/there") {
		http.ServeContent(w, req, "", date, bytes.NewReader(content))
		return
	}
	s.lied.Store(true)
	s.deceive(w, req, content, rand.New(rand.NewPCG(seed, 1)))
}

// deceive answers with something else than what was asked for.
func (s *site) deceive(w http.ResponseWriter, req *http.Request, content []byte, rng *rand.Rand) {
	var from, to int64
	fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	to = min(to, int64(len(content))-1)
	from = min(from, to)
	body, h := content[from:to+1], w.Header()
	total := len(content)
	partial := func(first, last int64, of int, b []byte) {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, of))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(b)
	}
	switch s.lie {
	case "status":
		w.WriteHeader([]int{400, 401, 403, 404, 408, 412, 416, 429, 500, 502, 503, 204, 304, 299}[rng.IntN(14)])
	case "cut":
		h.Set("Content-Length", fmt.Sprint(len(body)))
		partial(from, to, total, body[:rng.IntN(len(body))])
	case "long":
		partial(from, to, total, append(bytes.Clone(body), noise(rng, 100)...))
	case "wrong range":
		partial(from+1, to+1, total, body)
	case "wrong total":
		partial(from, to, total+1, body)
	case "wrong length":
		partial(from, to-int64(rng.IntN(len(body))), total, body)
	case "whole":
		w.Write(content)
	case "no range":
		w.WriteHeader(http.StatusPartialContent)
		w.Write(body)
	case "multipart":
		h.Set("Content-Type", "multipart/byteranges; boundary=x")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprintf(w, "--x\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s\r\n--x--\r\n", from, to, total, body)
	case "gzip":
		h.Set("Content-Encoding", "gzip")
		partial(from, to, total, body)
	case "drip": // a byte an answer
		partial(from, from, total, body[:1])
	case "stall":
		h.Set("Content-Length", fmt.Sprint(len(body)))
		partial(from, to, total, body[:len(body)/2])
		http.NewResponseController(w).Flush()
		select {
		case <-req.Context().Done():
		case <-time.After(3 * time.Second):
		}
	case "hang up":
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	case "retry after":
		h.Set("Retry-After", "100000")
		w.WriteHeader(http.StatusServiceUnavailable)
	case "redirect":
		http.Redirect(w, req, "/there", http.StatusTemporaryRedirect)
	case "redirect away":
		http.Redirect(w, req, s.elsewhere+"/there", http.StatusFound)
	case "redirect loop":
		http.Redirect(w, req, req.URL.Path+"x", http.StatusMovedPermanently)
	case "noise in headers":
		h.Set("Content-Range", string(bytes.ToValidUTF8(noise(rng, 30), nil)))
		h.Set("ETag", "\x01\"")
		w.WriteHeader(http.StatusPartialContent)
		w.Write(body)
	}
}

// away is another origin: it gets no secret of the first.
func (s *site) away(w http.ResponseWriter, req *http.Request) {
	var seen bytes.Buffer
	req.Header.Write(&seen)
	if strings.Contains(seen.String(), secret) || strings.Contains(req.URL.String(), secret) {
		text := seen.String()
		s.leaked.Store(&text)
	}
	if s.validator == "etag" {
		w.Header().Set("ETag", `"one"`)
	}
	http.ServeContent(w, req, "", modified, bytes.NewReader(s.old))
}

// beginServers reads a file from servers that lie, stall, drip, redirect and change it.
func beginServers(*arena) func(*round) {
	var now atomic.Pointer[site]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { now.Load().ServeHTTP(w, req) }))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { now.Load().away(w, req) }))
	return func(r *round) {
		size := 5000 + r.IntN(60_000)
		s := &site{rng: r.split(), calm: r.IntN(5), lie: pick(r.Rand, deceits), elsewhere: other.URL, old: noise(r.Rand, size), new: noise(r.Rand, size)}
		s.validator = pick(r.Rand, []string{"etag", "weak", "date", "both"})
		now.Store(s)
		r.count(s.lie, 1)
		r.browse(s, server.URL+"/file.bin?signature="+secret)
	}
}

// browse reads the file in pieces and wants all of them from one version.
func (r *round) browse(s *site, address string) {
	name := fmt.Sprintf("%s, validator %s", s.lie, s.validator)
	opts := &httprange.Options{
		PrefixBytes: 1 + r.Int64N(3000), RequestBytes: 200 + r.Int64N(5000), Attempts: 1 + r.IntN(4), Pause: time.Millisecond, Stall: 100 * time.Millisecond,
		Header: http.Header{"Authorization": {"Bearer " + secret}, "X-Api-Key": {secret}, "Private-Token": {secret}, "Cookie": {"a=" + secret}},
	}
	// However long a server waits or how little it sends, a context ends it, and so does Close.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	started := time.Now()
	reader, err := httprange.Open(ctx, address, opts)
	if took := time.Since(started); took > 10*time.Second {
		r.errorf("%s: Open takes %v", name, took)
	}
	if err != nil {
		r.count("refused", 1)
		r.quiet(name, err)
		return
	}
	got := make([]byte, reader.Size())
	var errs []error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := 0; at < len(got); {
			piece := got[at:min(len(got), at+1+r.IntN(9000))]
			n, err := reader.ReadAt(piece, int64(at))
			if n < len(piece) || err != nil && err != io.EOF {
				errs = append(errs, fmt.Errorf("%d of %d bytes: %w", n, len(piece), err))
				return
			}
			at += n
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Duration(300+r.IntN(2000)) * time.Millisecond):
		r.count("closed while it reads", 1)
		started = time.Now()
		reader.Close()
		<-done
		if took := time.Since(started); took > 10*time.Second {
			r.errorf("%s: a read ends %v after Close", name, took)
		}
	}
	reader.Close()
	if p := s.leaked.Load(); p != nil {
		r.errorf("%s: another origin was told\n%s", name, *p)
	}
	switch {
	case len(errs) > 0:
		r.count("errors", 1)
		r.quiet(name, errs[0])
	case bytes.Equal(got, s.old), bytes.Equal(got, s.new):
		r.count("right", 1)
	default:
		r.errorf("%s: neither version, and no error (%d bytes)", name, len(got))
	}
}

// quiet wants no secret in a message.
func (r *round) quiet(name string, err error) {
	if strings.Contains(err.Error(), secret) {
		r.errorf("%s: the error tells the secret: %v", name, err)
	}
}
