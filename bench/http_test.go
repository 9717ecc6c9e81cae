package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

// distance is a server of one file that answers late, and counts requests and bytes.
type distance struct {
	*httptest.Server
	requests, bytes atomic.Int64
}

func serveFrom(b *testing.B, path string, latency time.Duration) *distance {
	d := new(distance)
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d.requests.Add(1)
		f, err := os.Open(path)
		if err != nil {
			b.Error(err)
			return
		}
		defer f.Close()
		time.Sleep(latency)
		http.ServeContent(modeltest.CountedResponse{ResponseWriter: w, N: &d.bytes}, req, "", time.Unix(1e9, 0), f)
	}))
	b.Cleanup(d.Close)
	return d
}

func (d *distance) open(b *testing.B) (*httprange.Reader, *loader.Model) {
	r, err := httprange.Open(b.Context(), d.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	m, err := loader.OpenReaderAt(b.Context(), r, r.Size(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return r, m
}

// report says what an iteration cost the server.
func (d *distance) report(b *testing.B) {
	b.ReportMetric(float64(d.requests.Load())/float64(b.N), "requests/op")
	b.ReportMetric(float64(d.bytes.Load())/float64(b.N), "fetched-B/op")
}

// BenchmarkRemoteOpen opens a model of a gigabyte by its address.
func BenchmarkRemoteOpen(b *testing.B) {
	tensors := modelTensors(2000, GB)
	for _, format := range []struct{ name, path string }{
		{"apr2", sparseAPR2(b, tensors)}, {"safetensors", sparseSafeTensors(b, tensors)},
	} {
		for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
			b.Run(fmt.Sprintf("format=%s/latency=%v", format.name, latency), func(b *testing.B) {
				d := serveFrom(b, format.path, latency)
				for b.Loop() {
					r, m := d.open(b)
					m.Close()
					r.Close()
				}
				d.report(b)
			})
		}
	}
}

// BenchmarkRemoteLoad reads 256 tensors, 64 MB, into memory: by WarmAll, one by one, and,
// for comparison, the whole file by one plain request.
func BenchmarkRemoteLoad(b *testing.B) {
	const size = 64 * MB
	tensors := modelTensors(256, size)
	path := sparseSafeTensors(b, tensors)
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		d := serveFrom(b, path, latency)
		run := func(way string, load func(b *testing.B)) {
			b.Run(fmt.Sprintf("by=%s/latency=%v", way, latency), func(b *testing.B) {
				d.requests.Store(0)
				d.bytes.Store(0)
				b.SetBytes(size)
				for b.Loop() {
					load(b)
				}
				d.report(b)
			})
		}
		model := func(load func(m *loader.Model) error) func(b *testing.B) {
			return func(b *testing.B) {
				r, m := d.open(b)
				defer r.Close()
				defer m.Close()
				if err := load(m); err != nil {
					b.Fatal(err)
				}
			}
		}
		run("WarmAll", model(func(m *loader.Model) error {
			_, err := m.WarmAll(context.Background(), nil)
			return err
		}))
		run("Bytes", model(func(m *loader.Model) error {
			for t := range m.Tensors() {
				if _, err := t.Bytes(); err != nil {
					return err
				}
			}
			return nil
		}))
		run("GET", func(b *testing.B) {
			resp, err := http.Get(d.URL)
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
			whole := make([]byte, resp.ContentLength)
			if _, err := io.ReadFull(resp.Body, whole); err != nil {
				b.Fatal(err)
			}
		})
	}
}
