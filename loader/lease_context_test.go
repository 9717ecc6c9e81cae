package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

var errDeadline = errors.New("the request's deadline has passed")

// leaseCalls are the methods of a lease that may read.
var leaseCalls = map[string]func(l *loader.Lease) error{
	"Metadata": func(l *loader.Lease) error { _, err := l.Metadata(); return err },
	"Warm":     func(l *loader.Lease) error { return warmTensors(context.Background(), l, "i8", "q4") },
}

// TestLeaseContext has every call through a lease wait for a server that never answers. The
// lease's context ends it, and every call after it, with the context's cause.
func TestLeaseContext(t *testing.T) {
	file := modeltest.APR2Model(t, quantization("i8 0.5", ""), tensorsOf("three")...)
	calls := map[string]func(l *loader.Lease, x loader.Tensor) error{}
	for name, call := range tensorCalls {
		calls["Tensor."+name] = func(_ *loader.Lease, x loader.Tensor) error { return call(x) }
	}
	for name, call := range leaseCalls {
		calls[name] = func(l *loader.Lease, _ loader.Tensor) error { return call(l) }
	}
	for name, call := range calls {
		for _, kind := range []string{"context", "vector", "backed"} {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant("far", file)
				var r io.ReaderAt = byContext{d}
				switch kind {
				case "vector":
					r = d
				case "backed":
					r = d.backed(t)
				}
				m, err := loader.OpenReaderAt(t.Context(), r, d.size, nil)
				m = modeltest.Opened(t, m, err)
				ctx, cancel := context.WithCancelCause(context.Background())
				l, err := m.AcquireContext(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Release()
				x := tensor(t, l, "i8")
				d.before = waitForEnd
				d.traffic.reset()
				ended := make(chan error, 1)
				go func() { ended <- call(l, x) }()
				synctest.Wait()
				if len(ended) != 0 {
					t.Fatalf("%s does not wait: %v", name, <-ended)
				}
				cancel(errDeadline)
				requests := d.traffic.requests.Load()
				if err := <-ended; !errors.Is(err, errDeadline) || requests != 1 {
					t.Errorf("%s: %v after %d requests", name, err, requests)
				}
				if err := call(l, x); !errors.Is(err, errDeadline) || d.traffic.requests.Load() != 1 {
					t.Errorf("%s again: %v", name, err)
				}
				d.before = nil
				if other := must(m.Acquire())(t); call(other, tensor(t, other, "i8")) != nil {
					t.Errorf("%s fails through another lease", name)
				}
			})
		}
	}
}

// TestLeaseContextShared has two callers ask for one tensor. The one with a deadline leaves in
// time, whichever came first. If it was the one that fetched, the other one fetches in its place.
func TestLeaseContextShared(t *testing.T) {
	reads := map[string]func(x loader.Tensor) error{
		"Bytes":    func(x loader.Tensor) error { _, err := x.Bytes(); return err },
		"Float32s": func(x loader.Tensor) error { _, err := x.Float32s(); return err },
	}
	for name, read := range reads {
		for _, hurriedFirst := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant("far", modeltest.APR2Model(t, nil, tensorsOf("three")...))
				m := d.open(t, nil)
				answer := make(chan struct{})
				ctx, cancel := context.WithCancelCause(context.Background())
				hurriedLease, err := m.AcquireContext(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer hurriedLease.Release()
				patientLease := must(m.Acquire())(t)
				defer patientLease.Release()
				hurried, patient := make(chan error, 1), make(chan error, 1)
				begin := func(l *loader.Lease, ended chan error) {
					x := tensor(t, l, "q4")
					go func() { ended <- read(x) }()
					synctest.Wait()
				}
				d.before = func(ctx context.Context) error {
					select {
					case <-answer:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				d.traffic.reset()
				if hurriedFirst {
					begin(hurriedLease, hurried)
					begin(patientLease, patient)
				} else {
					begin(patientLease, patient)
					begin(hurriedLease, hurried)
				}
				cancel(errDeadline)
				if err := <-hurried; !errors.Is(err, errDeadline) || !strings.HasPrefix(err.Error(), `far: tensor "q4": `) {
					t.Errorf("%s: %v", name, err)
				}
				synctest.Wait()
				if len(patient) > 0 {
					t.Fatalf("%s: the other caller has ended: %v", name, <-patient)
				}
				close(answer)
				requests := int64(1)
				if hurriedFirst {
					requests = 2
				}
				if err := <-patient; err != nil || d.traffic.requests.Load() != requests {
					t.Errorf("%s: %v after %d requests", name, err, d.traffic.requests.Load())
				}
				if loader.Pins(hurriedLease) != 0 || loader.Pins(patientLease) != 1 {
					t.Errorf("%s: %d and %d entries are pinned", name, loader.Pins(hurriedLease), loader.Pins(patientLease))
				}
			})
		}
	}
}

// TestWaitEndsWithContext has Warm find a tensor that another call fetches, or whose blocks another call walks. The context of Warm ends
// the wait, and the other call goes on.
func TestWaitEndsWithContext(t *testing.T) {
	raw := modeltest.APR2Model(t, nil, tensorsOf("three")...)
	compressed := lz4Model(t, modeltest.Random("x", layout.U8, 40*lz4block.Size))
	copies := func(x loader.Tensor) error { _, err := x.Bytes(); return err }
	walks := func(x loader.Tensor) error { _, err := x.ReadAt(make([]byte, 10), 39*lz4block.Size); return err }
	for name, test := range map[string]struct {
		file   []byte
		tensor string
		other  func(x loader.Tensor) error
		call   func(ctx context.Context, m *loader.Model, l *loader.Lease) error
	}{
		"Model.Warm":      {raw, "q4", copies, func(ctx context.Context, m *loader.Model, _ *loader.Lease) error { return warmTensors(ctx, m, "q4") }},
		"Lease.Warm":      {raw, "q4", copies, func(ctx context.Context, _ *loader.Model, l *loader.Lease) error { return warmTensors(ctx, l, "q4") }},
		"Warm compressed": {compressed, "x", walks, func(ctx context.Context, m *loader.Model, _ *loader.Lease) error { return warmTensors(ctx, m, "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant("far", test.file)
				m := d.open(t, nil)
				l := must(m.Acquire())(t)
				defer l.Release()
				d.traffic.reset()
				answer := make(chan struct{})
				d.before = func(context.Context) error {
					if d.traffic.requests.Load() == 1 { // that of the other call
						<-answer
					}
					return nil
				}
				other, ended := make(chan error, 1), make(chan error, 1)
				x := tensor(t, m, test.tensor)
				go func() { other <- test.other(x) }()
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() { ended <- test.call(ctx, m, l) }()
				synctest.Wait()
				if len(ended) != 0 {
					t.Errorf("it does not wait: %v", <-ended)
					ended <- errDeadline
				}
				cancel(errDeadline)
				synctest.Wait()
				if len(ended) == 0 {
					t.Error("it waits beyond its context")
				}
				close(answer)
				if err := <-ended; !errors.Is(err, errDeadline) {
					t.Error(err)
				}
				if err := <-other; err != nil || loader.Pins(l) != 0 {
					t.Errorf("the other call ends with %v, %d pins", err, loader.Pins(l))
				}
			})
		})
	}
}

// TestLeaseWarm keeps what it has fetched until the release, though the cache has no budget.
// TestLeaseWarmedAndExpanded: what a lease has warmed goes once it holds the values, unless its bytes were asked for.
func TestLeaseWarmedAndExpanded(t *testing.T) {
	d := newDistant("far", lz4Model(t, compressible("a", layout.F16, 3000), compressible("b", layout.F16, 2000)))
	m := d.open(t, nil)
	l := must(m.Acquire())(t)
	defer l.Release()
	if err := warmTensors(t.Context(), l, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := tensor(t, l, "b").Bytes(); err != nil {
		t.Fatal(err)
	}
	d.traffic.reset()
	for _, c := range []struct {
		name string
		want uint64
	}{{"a", 4*3000 + 2*2000}, {"b", 4*3000 + 2*2000 + 4*2000}} {
		if _, err := tensor(t, l, c.name).Float32s(); err != nil {
			t.Fatal(err)
		}
		if n := m.Stats().HeapBytes; n != c.want {
			t.Errorf("with the values of %s %d bytes are cached, want %d", c.name, n, c.want)
		}
	}
	if n := d.traffic.requests.Load(); n != 0 || loader.Pins(l) != 3 { // values, and the bytes of b
		t.Errorf("%d requests, %d pins", n, loader.Pins(l))
	}
}

func TestLeaseWarm(t *testing.T) {
	d := newDistant("far", lz4Model(t, compressible("a", layout.U8, 3000), compressible("b", layout.U8, 2000)))
	m := d.open(t, &loader.Options{CacheBytes: -1})
	if err := warmTensors(t.Context(), m, "a"); !errors.Is(err, loader.ErrTooLarge) {
		t.Errorf("without a lease: %v", err)
	}
	l, other := must(m.Acquire())(t), must(m.Acquire())(t)
	for _, lease := range []*loader.Lease{l, other} { // the second finds what the first has fetched
		if err := warmTensors(t.Context(), lease, "b", "a", "b"); err != nil || loader.Pins(lease) != 2 {
			t.Fatalf("%d entries are pinned, %v", loader.Pins(lease), err)
		}
	}
	l.Release()
	d.traffic.reset()
	for _, name := range []string{"a", "b"} {
		if _, err := tensor(t, other, name).Bytes(); err != nil {
			t.Error(err)
		}
	}
	if n := d.traffic.requests.Load(); n != 0 {
		t.Errorf("%d requests for warm tensors", n)
	}
	other.Release()
	if n := m.Stats().HeapBytes; n != 0 {
		t.Errorf("%d bytes are cached after the release", n)
	}
	if err := warmTensors(t.Context(), l, "a"); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("after Release: %v", err)
	}
}

// TestLeaseContextLocal has a context end a lease of every kind of model.
func TestLeaseContextLocal(t *testing.T) {
	eachWay(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), func(t *testing.T, m *loader.Model) {
		ctx, cancel := context.WithCancelCause(context.Background())
		l, err := m.AcquireContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		x := tensor(t, l, "i8")
		for name, call := range tensorCalls {
			if err := call(x); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel(errDeadline)
		for name, call := range tensorCalls {
			if err := call(x); !errors.Is(err, errDeadline) {
				t.Errorf("%s after the end: %v", name, err)
			}
		}
		m.Close()
		l.Release()
		if err := x.Dequantize(make([]float32, x.Elements())); !errors.Is(err, loader.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestEndedContext hands an ended context to what takes one itself: the error is the context's cause.
func TestEndedContext(t *testing.T) {
	eachWay(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), func(t *testing.T, m *loader.Model) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errDeadline)
		x := tensor(t, m, "i8")
		xs := make([]float32, x.Shape()[len(x.Shape())-1])
		for name, err := range map[string]error{
			"Warm":   func() error { _, err := m.Warm(ctx, []string{"i8"}, nil); return err }(),
			"slowly": func() error { _, err := m.WarmAll(ctx, &loader.WarmOptions{BytesPerSecond: 1}); return err }(),
			"Verify": func() error { _, err := m.Verify(ctx, nil); return err }(),
			"MatVec": x.MatVec(ctx, make([]float32, x.Elements()/uint64(len(xs))), xs),
		} {
			if !errors.Is(err, errDeadline) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestLeaseOfManyFiles: a lease whose reads end with a context costs what its tensors need, however many files there are.
func TestLeaseOfManyFiles(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	costs := func(files int) float64 {
		var tensors []modeltest.Tensor
		for i := range files {
			tensors = append(tensors, modeltest.Random(fmt.Sprint("t", i), layout.F32, 4))
		}
		dir := t.TempDir()
		m, err := loader.OpenFS(os.DirFS(dir), filepath.Base(writeShards(t, dir, nil, tensors...)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		dst := make([]float32, 4)
		return testing.AllocsPerRun(20, func() {
			l, err := m.AcquireContext(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if err := tensor(t, l, "t1").Dequantize(dst); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := costs(2), costs(64); many > few {
		t.Errorf("%v allocations with 2 files, %v with 64", few, many)
	}
}
