package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

var formats = []struct {
	name string
	make func(testing.TB, []layout.Tensor) string
}{
	{"apr2", sparseAPR2},
	{"safetensors", sparseSafeTensors},
}

// BenchmarkOpen opens and closes a model: by number of tensors, and the same index over
// files of any size.
func BenchmarkOpen(b *testing.B) {
	for _, f := range formats {
		for _, tensors := range []int{100, 2000, 20000} {
			b.Run(fmt.Sprintf("format=%s/tensors=%d/file=100MB", f.name, tensors), func(b *testing.B) {
				benchmarkOpen(b, f.make(b, modelTensors(tensors, 100*MB)))
			})
		}
		for _, size := range []struct {
			name  string
			bytes uint64
		}{{"1MB", MB}, {"1GB", GB}, {"100GB", 100 * GB}} {
			b.Run(fmt.Sprintf("format=%s/tensors=2000/file=%s", f.name, size.name), func(b *testing.B) {
				benchmarkOpen(b, f.make(b, modelTensors(2000, size.bytes)))
			})
		}
	}
}

func benchmarkOpen(b *testing.B, path string) {
	// What opening reads: everything up to the first tensor.
	m := open(b, path)
	first := m.Files()[0].Size
	for t := range m.Tensors() {
		first = min(first, t.Offset())
	}
	b.SetBytes(int64(first))
	b.ReportAllocs()
	openings(b, path)
}

// openings opens and closes a model over and over. Such a loop collects garbage every few
// rounds, which the mean counts in; a server that opens a model once does not. So the median
// of the openings is reported too.
func openings(b *testing.B, path string) {
	last := make([]time.Duration, 1<<12)
	n := 0
	for b.Loop() {
		start := time.Now()
		m, err := loader.Open(path, nil)
		last[n%len(last)] = time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
		n++
	}
	last = last[:min(n, len(last))]
	slices.Sort(last)
	b.ReportMetric(float64(last[len(last)/2]), "median-ns")
}

func open(b testing.TB, path string) *loader.Model {
	b.Helper()
	m, err := loader.Open(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	return m
}

// BenchmarkLookup finds tensors by name, a different one each time.
func BenchmarkLookup(b *testing.B) {
	for _, tensors := range []int{100, 2000, 20000} {
		b.Run(fmt.Sprintf("tensors=%d", tensors), func(b *testing.B) {
			m := open(b, sparseAPR2(b, modelTensors(tensors, MB)))
			var names []string
			for t := range m.Tensors() {
				names = append(names, t.Name())
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; i == len(names) {
					i = 0
				}
				if _, err := m.Tensor(names[i]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
