package loader_test

import (
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestStats(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("f32", layout.F32, 1000), modeltest.Random("f16", layout.F16, 1000))
	for _, w := range ways {
		m := w.of(t, file, nil)
		s := m.Stats()
		mapped := s.MappedBytes > 0
		if mapped && (s.MappedBytes != uint64(len(file))) {
			t.Errorf("%s: %+v of a file of %d bytes", w.name, s, len(file))
		}
		if want := mapsFiles && w.memory == mappedFile; mapped != want {
			t.Errorf("%s: mapped: %v", w.name, mapped)
		}
		if inMemory := w.memory == callers; s.MappedBytes+s.UnmappedBytes != uint64(len(file)) && !inMemory || inMemory && s.UnmappedBytes > 0 {
			t.Errorf("%s: %+v of a file of %d bytes", w.name, s, len(file))
		}
		if w.memory == mappedFile && s.FetchedBytes > 0 || s.FetchedBytes > uint64(len(file)) || s.PresentBytes > 0 {
			t.Errorf("%s: fetched: %+v", w.name, s)
		}
		s.MappedBytes, s.UnmappedBytes, s.FetchedBytes = 0, 0, 0
		if want := (loader.Stats{Tensors: 2}); s != want {
			t.Errorf("%s: at first: %+v", w.name, s)
		}
		x := tensor(t, m, "f16")
		first := must(x.Float32s())(t)
		for range 3 {
			if again := must(x.Float32s())(t); &again[0] != &first[0] {
				t.Errorf("%s: another slice of the same values", w.name)
			}
		}
		if err := x.Dequantize(make([]float32, 1000)); err != nil { // is not cached
			t.Errorf("%s: %v", w.name, err)
		}
		s = m.Stats()
		hits := uint64(3)
		if s.UnmappedBytes > 0 {
			hits = 4 // Dequantize copies the values rather than read again
		}
		if s.Expansions != 1 || s.Hits != hits || s.HeapBytes != 4000 || s.ExpandedBytes != 4000 || s.Evictions != 0 {
			t.Errorf("%s: after four calls: %+v", w.name, s)
		}
	}
}

func TestCacheBudgetOfModel(t *testing.T) {
	var tensors []modeltest.Tensor
	for _, name := range []string{"a", "b", "c"} {
		tensors = append(tensors, modeltest.Random(name, layout.F16, 100)) // 400 bytes as float32
	}
	file := modeltest.SafeTensors(tensors...)
	tests := []struct {
		budget    int64
		heap      uint64
		evictions uint64
	}{
		{0, 1200, 0}, // the default
		{1200, 1200, 0},
		{1199, 800, 1},
		{400, 400, 2},
		{1, 0, 3},
		{-1, 0, 3},
	}
	for _, tt := range tests {
		m := openBytes(t, file, &loader.Options{CacheBytes: tt.budget})
		for x := range m.Tensors() {
			must(x.Float32s())(t)
		}
		if s := m.Stats(); s.HeapBytes != tt.heap || s.Evictions != tt.evictions || s.Expansions != 3 || s.ExpandedBytes != 1200 {
			t.Errorf("budget %d: %+v", tt.budget, s)
		}
	}
}

// TestLeaseKeepsExpansions: under a lease even a budget of nothing expands once.
func TestLeaseKeepsExpansions(t *testing.T) {
	c := modeltest.Random("x", layout.F16, 100)
	m := openBytes(t, modeltest.SafeTensors(c), &loader.Options{CacheBytes: -1})
	l := must(m.Acquire())(t)
	x := tensor(t, l, "x")
	first := must(x.Float32s())(t)
	for range 3 {
		must(x.Float32s())(t)
		if again := must(tensor(t, m, "x").Float32s())(t); &again[0] != &first[0] {
			t.Error("without the lease another slice")
		}
	}
	if s := m.Stats(); s.Expansions != 1 || s.HeapBytes != 400 || s.Evictions != 0 {
		t.Errorf("under the lease: %+v", s)
	}
	l.Release()
	if s := m.Stats(); s.HeapBytes != 0 || s.Evictions != 1 {
		t.Errorf("after it: %+v", s)
	}
	must(tensor(t, m, "x").Float32s())(t)
	if s := m.Stats(); s.HeapBytes != 0 || s.Expansions != 2 {
		t.Errorf("without a lease: %+v", s)
	}
}

// TestCloseForgetsExpansions: the heap goes when the mapping does.
func TestCloseForgetsExpansions(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("x", layout.F16, 100)), nil)
	l := must(m.Acquire())(t)
	must(tensor(t, l, "x").Float32s())(t)
	m.Close()
	must(tensor(t, l, "x").Float32s())(t)
	if n := m.Stats().HeapBytes; n != 400 {
		t.Errorf("%d bytes under the lease", n)
	}
	l.Release()
	if n := m.Stats().HeapBytes; n != 0 {
		t.Errorf("%d bytes after it", n)
	}
}

func TestExpandedOnce(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, modeltest.Random("x", layout.Q5_1, 1000, 256))), nil)
	x := tensor(t, m, "x")
	got := make(chan *float32)
	for range 32 {
		go func() {
			v, err := x.Float32s()
			if err != nil {
				t.Error(err)
				v = []float32{0}
			}
			got <- &v[0]
		}()
	}
	first := <-got
	for range 31 {
		if <-got != first {
			t.Error("another slice")
		}
	}
	if s := m.Stats(); s.Expansions != 1 || s.Hits != 31 {
		t.Errorf("%+v", s)
	}
}
