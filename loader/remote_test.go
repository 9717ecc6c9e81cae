package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

// distant is a file that is read in every way that OpenReaderAt knows, and counts.
type distant struct {
	name    string
	r       io.ReaderAt
	size    int64
	traffic *traffic // of all files beside each other
	before  func(ctx context.Context) error
}

// traffic is what has been asked for.
type traffic struct{ requests, bytes, closed atomic.Int64 }

func (tr *traffic) reset() { tr.requests.Store(0); tr.bytes.Store(0) }

func newDistant(name string, b []byte) *distant {
	return &distant{name: name, r: bytes.NewReader(b), size: int64(len(b)), traffic: new(traffic)}
}

func (d *distant) Name() string { return d.name }

func (d *distant) ReadAt(p []byte, off int64) (int, error) {
	return d.ReadAtContext(context.Background(), p, off)
}

func (d *distant) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	d.traffic.requests.Add(1)
	if d.before != nil {
		if err := d.before(ctx); err != nil {
			return 0, err
		}
	}
	d.traffic.bytes.Add(int64(len(p)))
	return d.r.ReadAt(p, off)
}

// Open opens the file itself, by its name, or one beside it.
func (d *distant) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	s, err := d.sibling(ctx, name)
	if err != nil {
		return loader.FolderFile{}, err
	}
	if s == d {
		return loader.FolderFile{Name: s.name, Source: lentSource{distantSource{s}}}, nil
	}
	return loader.FolderFile{Name: s.name, Source: distantSource{s}}, nil
}

// lentSource is one that the caller closes.
type lentSource struct{ distantSource }

func (lentSource) Close() error { return nil }

// distantSource is a distant file as the loader reads it.
type distantSource struct{ *distant }

func (d distantSource) Size() int64 { return d.size }

func (d distantSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	n, err := d.ReadAtContext(ctx, p, off)
	if n == len(p) { // whatever err says, such as io.EOF
		return nil
	}
	return err
}

func (d *distant) sibling(_ context.Context, name string) (*distant, error) {
	if name == d.name {
		return d, nil
	}
	path := filepath.Join(filepath.Dir(d.name), name)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // but a pipe, say
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &distant{path, bytes.NewReader(b), int64(len(b)), d.traffic, d.before}, nil
}

func (d *distant) Close() error {
	d.traffic.closed.Add(1)
	return nil
}

// open opens a model for the length of a test.
func (d *distant) open(t testing.TB, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.OpenReaderAt(context.Background(), d, d.size, opts)
	return modeltest.Opened(t, m, err)
}

// made is a file of size bytes between whose head and foot every byte is made up.
type made struct {
	head, foot []byte
	size       int64
}

func (m *made) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(0, m.size-off)))
	for i := range p[:n] {
		switch at := off + int64(i); {
		case at < int64(len(m.head)):
			p[i] = m.head[at]
		case at >= m.size-int64(len(m.foot)):
			p[i] = m.foot[at-(m.size-int64(len(m.foot)))]
		default:
			p[i] = byte(at>>16) ^ byte(at>>8) ^ byte(at)
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ServeHTTP serves m, whatever its address.
func (m *made) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, req, "", time.Time{}, io.NewSectionReader(m, 0, m.size))
}

func (m *made) distant(name string) *distant {
	return &distant{name: name, r: m, size: m.size, traffic: new(traffic)}
}

// web is a server of files, honest but where fault, if set, answers in its place. It counts
// the bytes of bodies.
type web struct {
	*httptest.Server
	traffic
	fault atomic.Pointer[func(w http.ResponseWriter, req *http.Request) bool]
}

func serveWeb(t testing.TB, files http.Handler) *web {
	s := new(web)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.requests.Add(1)
		w = modeltest.CountedResponse{ResponseWriter: w, N: &s.bytes}
		if fault := s.fault.Load(); fault == nil || !(*fault)(w, req) {
			files.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *web) failing(fault func(w http.ResponseWriter, req *http.Request) bool) {
	if fault == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&fault)
}

// read opens an address for the length of a test.
func (s *web) read(t testing.TB, path string) *httprange.Reader {
	t.Helper()
	r, err := httprange.Open(t.Context(), s.URL+path, &httprange.Options{
		Attempts: 3, Pause: time.Millisecond, Stall: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func (s *web) open(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	r := s.read(t, path)
	m, err := loader.OpenReaderAt(t.Context(), r, r.Size(), opts)
	return modeltest.Opened(t, m, err)
}

// plainReader can nothing but ReadAt.
type plainReader struct{ io.ReaderAt }

// lyingSize is more than any file has.
const lyingSize = math.MaxInt64 / 2

var errBroken = errors.New("broken")
