package loader_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// bound is a model and its weights, which are looked up once.
type bound struct {
	m     *loader.Model
	views [][]byte
}

// TestBoundViewsUnderSwaps binds the weights of a model once. Every request takes a lease and
// looks nothing up: its views live until the release, though the model is swapped and closed
// meanwhile and they were taken without any lease.
func TestBoundViewsUnderSwaps(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("system calls return once all goroutines wait, and those of this test never do; TestServerSwapsModels runs")
	}
	bind := func(m *loader.Model) *bound {
		b := &bound{m: m}
		for x := range m.Tensors() {
			view, err := x.Bytes()
			if err != nil {
				t.Error(err)
			}
			b.views = append(b.views, view)
			if x.DType() != layout.F16 {
				continue
			}
			values, err := x.Float32s()
			if err != nil {
				t.Error(err)
			}
			b.views = append(b.views, mmapio.Bytes(values))
		}
		return b
	}
	const models = 3
	contents := func(i int) []modeltest.Tensor {
		n := 5000 + i
		return []modeltest.Tensor{modeltest.Random("f32", layout.F32, n), modeltest.Random("f16", layout.F16, n), compressible("u8", layout.U8, n)}
	}
	for name, encode := range map[string]func(i int) []byte{
		"mapped":     func(i int) []byte { return modeltest.APR2Model(t, nil, contents(i)...) },
		"shifted":    func(i int) []byte { return shifted(modeltest.APR2Model(t, nil, contents(i)...), 1) },
		"compressed": func(i int) []byte { return lz4Model(t, contents(i)...) },
	} {
		for _, opts := range []*loader.Options{nil, {CacheBytes: -1}, {NoMap: true}} {
			var paths []string
			var want [][][]byte
			for i := range models {
				paths = append(paths, modeltest.Write(t, "model", encode(i)))
				b := bind(openPath(t, paths[i], nil))
				var copies [][]byte
				for _, view := range b.views {
					copies = append(copies, bytes.Clone(view))
				}
				want = append(want, copies)
			}
			var current atomic.Pointer[bound]
			open := func(i int) *bound {
				m, err := loader.Open(paths[i%models], opts)
				if err != nil {
					t.Fatal(err)
				}
				return bind(m)
			}
			current.Store(open(0))
			request := func() bool {
				b := current.Load()
				l, err := b.m.Acquire()
				if err != nil {
					if !errors.Is(err, loader.ErrClosed) {
						t.Error(err)
					}
					return false
				}
				defer l.Release()
				runtime.Gosched() // the model may be swapped now
				for _, w := range want {
					if slices.EqualFunc(b.views, w, bytes.Equal) {
						return true
					}
				}
				t.Errorf("%s: the views of no model", name)
				return false
			}
			var wg sync.WaitGroup
			var served atomic.Int64
			var done atomic.Bool
			for range 4 {
				wg.Go(func() {
					for !done.Load() && !t.Failed() {
						if request() {
							served.Add(1)
						}
					}
				})
			}
			for i := 1; i <= 30 && !t.Failed(); i++ {
				for before := served.Load(); served.Load() == before && !t.Failed(); { // each model serves
					runtime.Gosched()
				}
				if err := current.Swap(open(i)).m.Close(); err != nil {
					t.Error(err)
				}
			}
			done.Store(true)
			wg.Wait()
			current.Load().m.Close()
		}
	}
}
