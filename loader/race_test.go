package loader_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/quantize"
)

// TestCloseAgainstReaders lets many goroutines do everything at once while one closes the
// model, of one file or of shards, which they touch first. Each call works or answers ErrClosed, and readers under a lease never fail.
func TestCloseAgainstReaders(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("system calls return once all goroutines wait, and tensors are read here as long as a lease waits for one")
	}
	race := func(path string, opts *loader.Options) { // closes a model while goroutines call all its methods, until each hears that it is closed
		m, err := loader.Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		calls := &countdown{over: make(chan struct{})}
		calls.left.Store(rand.Int64N(1000))
		x := tensor(t, m, "i8")
		run := func(name string, call func() error) {
			wg.Go(func() {
				<-start
				for {
					calls.tick()
					switch err := call(); {
					case errors.Is(err, loader.ErrClosed):
						return
					case err != nil:
						t.Errorf("%s: %v", name, err)
						return
					}
					runtime.Gosched() // WebAssembly has one thread, and nothing preempts it
				}
			})
		}
		for name, call := range modelCalls {
			run(name, func() error { return call(m) })
		}
		for name, call := range tensorCalls {
			run(name, func() error { return call(x) })
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for i := range 4 {
			run("lease", func() error {
				l, err := m.AcquireContext([]context.Context{context.Background(), ctx}[i%2])
				if err != nil {
					return err
				}
				defer l.Release()
				for x := range l.Tensors() {
					if _, err := x.Float32s(); err != nil {
						return errors.New("under a lease: " + err.Error())
					}
				}
				return nil
			})
		}
		wg.Go(func() {
			<-calls.over
			if err := m.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		close(start)
		wg.Wait()
	}
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("three")...))
	shiftedPath := modeltest.Write(t, "shifted", shifted(modeltest.APR2Model(t, nil, tensorsOf("three")...), 2))
	for round := range 10 {
		for _, path := range []string{path, shiftedPath} {
			race(path, &loader.Options{CacheBytes: int64(round%3) * 100, NoMap: round%5 == 4})
		}
	}
	shards := writeShards(t, t.TempDir(), nil, tensorsOf("three")...)
	for round := range 20 {
		race(shards, &loader.Options{NoMap: round%4 == 3})
	}
}

// countdown closes over after so many ticks.
type countdown struct {
	left atomic.Int64
	over chan struct{}
}

func (c *countdown) tick() {
	if c.left.Add(-1) == -1 {
		close(c.over)
	}
}

// TestOneCloseWins: of many, one closes and the others hear that it is closed.
func TestOneCloseWins(t *testing.T) {
	for range 50 {
		m := openBytes(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), nil)
		var wg sync.WaitGroup
		var won atomic.Int32
		for range 8 {
			wg.Go(func() {
				switch err := m.Close(); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, loader.ErrClosed):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d closed it", won.Load())
		}
	}
}

// TestServerSwapsModels is a server that goes over to a new model while requests run.
// Every request finishes on the model that it began with.
func TestServerSwapsModels(t *testing.T) {
	const models, n = 4, 256
	dir := t.TempDir()
	path := func(i int) string { return filepath.Join(dir, string(rune('a'+i%models))) }
	for i := range models {
		// The same value everywhere, in every dtype.
		values := slices.Repeat([]float32{float32(1 + i)}, n)
		var tensors []modeltest.Tensor
		for _, d := range []layout.DType{layout.F32, layout.F16, layout.Q8_0} {
			c := modeltest.Random(d.String(), d, n)
			codec, err := dequant.NewCodec(d, layout.Quant{}, false)
			if err := cmp.Or(err, quantize.Encode(codec, c.Data, values, nil, 1)); err != nil {
				t.Fatal(err)
			}
			tensors = append(tensors, c)
		}
		modeltest.WriteTo(t, path(i), modeltest.APR2Model(t, layout.Metadata{{Key: "value", Value: float64(1 + i)}}, tensors...))
	}
	open := func(i int) *loader.Model {
		m, err := loader.Open(path(i), &loader.Options{CacheBytes: 3000})
		if err != nil {
			t.Error(err)
		}
		return m
	}
	var current atomic.Pointer[loader.Model]
	current.Store(open(0))
	deadline := time.Now().Add(200 * time.Millisecond)
	var requests, swaps atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	request := func() (served bool) { // false if the model was closed before the request began
		l, err := current.Load().Acquire()
		if err != nil {
			if !errors.Is(err, loader.ErrClosed) {
				t.Error(err)
			}
			return false
		}
		defer l.Release()
		want := float32(math.NaN())
		row := make([]float32, 32)
		for x := range l.Tensors() {
			values, err := x.Float32s()
			if err != nil {
				t.Error(err)
				return false
			}
			runtime.Gosched() // the model may be swapped now, also where nothing preempts
			if want != want {
				want = values[0] // of F32: exact
			}
			if err := x.DequantizeRange(row, 32); err != nil {
				t.Error(err)
			}
			for i, v := range values {
				// Q8_0 rounds the scale to binary16, hence the value to 11 bits.
				if diff := math.Abs(float64(v - want)); diff > float64(want)/1024 || row[i%32] != v {
					t.Errorf("%s of model %v holds %v and %v", x.Name(), want, v, row[i%32])
					return false
				}
			}
		}
		return true
	}
	for range 8 {
		wg.Go(func() {
			for !done.Load() && !t.Failed() {
				if request() {
					requests.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		defer done.Store(true)
		for i := 1; i <= 2*models || time.Now().Before(deadline); i++ {
			old := current.Swap(open(i))
			if err := old.Close(); err != nil {
				t.Error(err)
			}
			swaps.Add(1)
			runtime.Gosched()
		}
	})
	wg.Wait()
	current.Load().Close()
	if requests.Load() == 0 {
		t.Error("no requests")
	}
	t.Logf("%d requests, %d swaps", requests.Load(), swaps.Load())
}

func TestVerifyAndWriteConcurrently(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("three")...)), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				r, err := m.Verify(context.Background(), nil)
				if err != nil || r.Err() != nil {
					t.Error(err, r)
				}
				for x := range m.Tensors() {
					if _, err := x.WriteTo(io.Discard); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}
