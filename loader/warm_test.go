package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestWarmFarRequests: neighbours come together, padding only between them, and nothing a
// second time.
func TestWarmFarRequests(t *testing.T) {
	list := []modeltest.Tensor{
		modeltest.Random("a", layout.U8, 1000), modeltest.Random("b", layout.U8, 24), modeltest.Random("c", layout.U8, 5000),
		modeltest.Random("d", layout.U8, 5000), modeltest.Random("e", layout.U8, 64), modeltest.Random("empty", layout.F32, 0, 3), modeltest.Random("f", layout.U8, 77),
	}
	file := modeltest.APR2Model(t, nil, list...) // each tensor at a multiple of 64 bytes
	for _, step := range []struct {
		name            string
		names           []string
		requests, bytes int64
	}{
		{"neighbours", []string{"a", "b", "c"}, 1, 1024 + 64 + 5000},
		{"in another order, twice", []string{"c", "a", "b", "a", "c"}, 1, 1024 + 64 + 5000},
		{"two runs", []string{"a", "b", "d", "e"}, 2, 1024 + 24 + 5056 + 64},
		{"around one without bytes", []string{"e", "empty", "f"}, 1, 64 + 77},
		{"one without bytes", []string{"empty"}, 0, 0},
		{"none", nil, 0, 0},
	} {
		d := newDistant("far", file)
		m := d.open(t, nil)
		d.traffic.reset()
		if err := warmTensors(t.Context(), m, step.names...); err != nil || d.traffic.requests.Load() != step.requests || d.traffic.bytes.Load() != step.bytes {
			t.Errorf("%s: %d requests for %d bytes, want %d for %d; %v", step.name, d.traffic.requests.Load(), d.traffic.bytes.Load(), step.requests, step.bytes, err)
		}
		d.traffic.reset()
		for _, name := range step.names {
			if b, err := tensor(t, m, name).Bytes(); err != nil || !bytes.Equal(b, list[slices.IndexFunc(list, func(c modeltest.Tensor) bool { return c.Name == name })].Data) {
				t.Errorf("%s: %s has other bytes, or %v", step.name, name, err)
			}
		}
		if err := warmTensors(t.Context(), m, step.names...); err != nil || d.traffic.requests.Load() != 0 {
			t.Errorf("%s: %d requests for what is there; %v", step.name, d.traffic.requests.Load(), err)
		}
		c := &counter{r: bytes.NewReader(file)}
		m, err := loader.OpenReaderAt(t.Context(), c, int64(len(file)), nil)
		m = modeltest.Opened(t, m, err)
		c.reset()
		if err := warmTensors(t.Context(), m, step.names...); err != nil || c.reads.Load() != step.requests || c.bytes.Load() != step.bytes {
			t.Errorf("%s: %d plain reads of %d bytes, want %d of %d; %v", step.name, c.reads.Load(), c.bytes.Load(), step.requests, step.bytes, err)
		}
	}
	// What is there splits a run.
	d := newDistant("far", file)
	m := d.open(t, nil)
	if _, err := tensor(t, m, "b").Bytes(); err != nil {
		t.Fatal(err)
	}
	d.traffic.reset()
	if err := warmTensors(t.Context(), m, "a", "b", "c"); err != nil || d.traffic.requests.Load() != 2 || d.traffic.bytes.Load() != 6000 {
		t.Errorf("%d requests for %d bytes; %v", d.traffic.requests.Load(), d.traffic.bytes.Load(), err)
	}
	got, err := m.Warm(t.Context(), []string{"c", "b"}, &loader.WarmOptions{Ordered: true})
	if want := (loader.WarmResult{Bytes: 5024, Resident: 5024}); got != want || err != nil {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
}

// TestWarmFarLarge: the requests for a large tensor run at the same time, once the first has come: a server may claim any size.
func TestWarmFarLarge(t *testing.T) {
	c := modeltest.Random("x", layout.U8, 40<<20)
	d := newDistant("far", modeltest.SafeTensors(modeltest.Random("before", layout.U8, 100), c))
	m := d.open(t, nil)
	d.traffic.reset()
	var waiting sync.WaitGroup // for each other
	waiting.Add(2)
	d.before = func(ctx context.Context) error {
		if d.traffic.requests.Load() == 1 {
			return nil
		}
		waiting.Done()
		done := make(chan struct{})
		go func() { waiting.Wait(); close(done) }()
		select {
		case <-done:
			return nil
		case <-time.After(30 * time.Second):
			return errors.New("requests come one after the other")
		}
	}
	var told []uint64
	got, err := m.Warm(t.Context(), []string{"x"}, &loader.WarmOptions{Ordered: true, Progress: func(done, total uint64) {
		if told = append(told, done); total != 40<<20 {
			t.Errorf("a total of %d", total)
		}
	}})
	if err != nil || got.Bytes != 40<<20 || got.Resident != 0 || d.traffic.requests.Load() != 3 || d.traffic.bytes.Load() != 40<<20 {
		t.Errorf("%+v, %v: %d requests for %d bytes", got, err, d.traffic.requests.Load(), d.traffic.bytes.Load())
	}
	if len(told) != 3 || told[2] != 40<<20 || told[0] >= told[1] {
		t.Errorf("progress of %d", told)
	}
	if b, err := tensor(t, m, "x").Bytes(); err != nil || !bytes.Equal(b, c.Data) {
		t.Errorf("%v, or other bytes", err)
	}
}

// TestWarmFarCompressed: a tensor travels once and is expanded on arrival.
func TestWarmFarCompressed(t *testing.T) {
	list := []modeltest.Tensor{compressible("a", layout.U8, 300_000), compressible("b", layout.Q8_0, 1000, 320), compressible("c", layout.F32, 7)}
	file := lz4Model(t, list...)
	d := newDistant("far", file)
	m := d.open(t, nil)
	d.traffic.reset()
	got, err := m.WarmAll(t.Context(), nil)
	if err != nil || d.traffic.requests.Load() != 1 || d.traffic.bytes.Load() != int64(got.Bytes) {
		t.Errorf("%+v, %v: %d requests for %d bytes", got, err, d.traffic.requests.Load(), d.traffic.bytes.Load())
	}
	d.before = func(context.Context) error { return errBroken }
	for _, c := range list {
		x := tensor(t, m, c.Name)
		if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) {
			t.Errorf("%s: %v, or other bytes", c.Name, err)
		}
		if err := x.DequantizeRange(make([]float32, 5), 2); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestWarmFarDamaged(t *testing.T) {
	file := lz4Model(t, compressible("a", layout.U8, 300_000))
	d := newDistant("far", file)
	x := tensor(t, d.open(t, nil), "a")
	for name, at := range map[string]uint64{"a length": 2, "a block": 4} {
		bad := bytes.Clone(file)
		for i := range 3 {
			bad[x.Offset()+at+uint64(i)] ^= 0xff
		}
		d := newDistant("far", bad)
		m := d.open(t, nil)
		fe := new(layout.FormatError)
		if err := warmTensors(t.Context(), m, "a"); !errors.As(err, &fe) || fe.Field != "lz4" || !strings.HasPrefix(err.Error(), `far: tensor "a": `) || strings.Count(err.Error(), "far") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWarmFarPacked: a tensor that is unpacked as a whole travels once.
func TestWarmFarPacked(t *testing.T) {
	c := modeltest.Random("x", layout.F32, 100, 100)
	file, unpacked := packed(t, c, nil)
	d := newDistant("far", file)
	m := d.open(t, nil)
	d.traffic.reset()
	if err := warmTensors(t.Context(), m, "x"); err != nil {
		t.Error(err)
	}
	if b, err := tensor(t, m, "x").Bytes(); err != nil || !bytes.Equal(b, c.Data) || unpacked.Load() != 1 {
		t.Errorf("%v, or other bytes, unpacked %d times", err, unpacked.Load())
	}
	if d.traffic.requests.Load() != 1 || d.traffic.bytes.Load() != int64(len(c.Data)) {
		t.Errorf("%d requests for %d bytes", d.traffic.requests.Load(), d.traffic.bytes.Load())
	}
}

func TestWarmFarErrors(t *testing.T) {
	d := newDistant("far", modeltest.APR2Model(t, nil, modeltest.Random("a", layout.U8, 1000), modeltest.Random("b", layout.U8, 2000)))
	m := d.open(t, &loader.Options{CacheBytes: 2999})
	d.traffic.reset()
	if err := warmTensors(t.Context(), m, "a", "b"); !errors.Is(err, loader.ErrTooLarge) || !strings.Contains(err.Error(), "2999") {
		t.Errorf("beyond the cache: %v", err)
	}
	if err := warmTensors(t.Context(), m, "a", "x"); !errors.Is(err, loader.ErrNotFound) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("of no tensor: %v", err)
	}
	if n := d.traffic.requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	if err := warmTensors(t.Context(), m, "b", "b"); err != nil {
		t.Errorf("the same twice: %v", err)
	}
	none := d.open(t, &loader.Options{CacheBytes: -1})
	if err := warmTensors(t.Context(), none, "a"); !errors.Is(err, loader.ErrTooLarge) {
		t.Errorf("without a cache: %v", err)
	}
	d.before = func(context.Context) error { return errBroken }
	if err := warmTensors(t.Context(), m, "a"); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "far: ") {
		t.Errorf("broken: %v", err)
	}
	d.before = waitForEnd
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := warmTensors(ctx, m, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	d.before = nil
	if b, err := tensor(t, m, "a").Bytes(); err != nil || len(b) != 1000 {
		t.Errorf("another try: %v", err)
	}
	m.Close()
	if err := warmTensors(t.Context(), m); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestWarmFarGivesUp: one failure ends the other readers.
func TestWarmFarGivesUp(t *testing.T) {
	const size = 64 << 20
	file := &made{head: modeltest.WithHeader(fmt.Sprintf(`{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, size))}
	file.size = int64(len(file.head)) + size
	d := file.distant("far")
	m := d.open(t, nil)
	var n atomic.Int64
	d.before = func(ctx context.Context) error {
		switch n.Add(1) {
		case 1: // the other readers begin after it
			return nil
		case 4:
			return errBroken
		}
		return waitForEnd(ctx)
	}
	if err := warmTensors(t.Context(), m, "x"); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

// TestWarmFarAgainstAll: warming, reading, leases and Close go on at once.
func TestWarmFarAgainstAll(t *testing.T) {
	var list []modeltest.Tensor
	for i := range 20 {
		list = append(list, modeltest.Random(fmt.Sprint(i), layout.U8, 100*i+1))
	}
	file := modeltest.APR2Model(t, nil, list...)
	for round := range 10 {
		d := newDistant("far", file)
		m := d.open(t, &loader.Options{CacheBytes: int64(20_000 * (1 + round%2))})
		var wg sync.WaitGroup
		calls := &countdown{over: make(chan struct{})}
		calls.left.Store(rand.Int64N(1000))
		again := func(call func(i int) error) {
			wg.Go(func() {
				for i := 0; ; i++ {
					calls.tick()
					err := call(i)
					if errors.Is(err, loader.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					runtime.Gosched() // WebAssembly has one thread, and nothing preempts it
				}
			})
		}
		check := func(x loader.Tensor, c modeltest.Tensor) error {
			if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) {
				return errors.Join(err, errors.New(c.Name))
			}
			return nil
		}
		for k := range 3 {
			again(func(i int) error {
				return warmTensors(t.Context(), m, fmt.Sprint((i+k)%20), fmt.Sprint((i*7+k)%20), fmt.Sprint(i%20))
			})
		}
		again(func(int) error {
			x, err := m.Tensor("13")
			if err != nil {
				return err
			}
			_, err = x.Float32s()
			return err
		})
		again(func(i int) error {
			l, err := m.Acquire()
			if err != nil {
				return err
			}
			defer l.Release()
			x, err := l.Tensor(list[i%20].Name)
			if err != nil {
				return err
			}
			if err := check(x, list[i%20]); err != nil {
				t.Errorf("under a lease: %v", err)
			}
			return nil
		})
		again(func(i int) error { return m.Evict(list[i%20].Name) })
		l, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		<-calls.over
		m.Close()
		wg.Wait()
		x, err := l.Tensor("19")
		if err != nil {
			t.Fatal(err)
		}
		if err := check(x, list[19]); err != nil {
			t.Errorf("under a lease after Close: %v", err)
		}
		l.Release()
		if _, err := x.Bytes(); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("after all: %v", err)
		}
	}
}

// TestRemoteRate: BytesPerSecond holds for what travels.
func TestRemoteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant("far", modeltest.APR2Model(t, nil, modeltest.Random("a", layout.U8, 3<<20)))
		m := d.open(t, nil)
		begun := time.Now()
		if _, err := m.WarmAll(t.Context(), &loader.WarmOptions{BytesPerSecond: 8 << 20}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 375*time.Millisecond || took > 400*time.Millisecond {
			t.Errorf("took %v, want 375 ms", took)
		}
	})
}

// TestWarmTwice: values that another lease has expanded replace the elements that this one has warmed, too.
func TestWarmTwice(t *testing.T) {
	const n = 1000
	m := newDistant("far", modeltest.SafeTensors(modeltest.Finite("x", layout.F16, n))).open(t, nil)
	var leases [2]*loader.Lease
	for i := range leases {
		l, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		if _, err := l.Warm(t.Context(), []string{"x"}, nil); err != nil {
			t.Fatal(err)
		}
		leases[i] = l
	}
	for i, want := range []uint64{6 * n, 4 * n} { // as long as the second lease has pinned elements, and then
		if _, err := tensor(t, leases[i], "x").Float32s(); err != nil {
			t.Fatal(err)
		}
		if got := m.Stats().HeapBytes; got != want {
			t.Errorf("%d bytes after lease %d, want %d", got, i, want)
		}
	}
}
