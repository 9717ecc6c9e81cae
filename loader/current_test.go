package loader_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestCurrent swaps models under requests that read bound tensors, without binding them to their leases. All are answered.
func TestCurrent(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("system calls return once all goroutines wait, and those of this test never do")
	}
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.Q8_0, 30, 64))
	eachWay(t, file, func(t *testing.T, first *loader.Model) {
		want := slices.Clone(must(tensor(t, first, "x").Float32s())(t))
		var current loader.Current[loader.Tensor]
		if _, _, err := current.Acquire(t.Context()); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("Acquire of nothing: %v", err)
		}
		if s := current.Stats(); !s.Closed || s.Tensors != 0 || s.Draining != 0 {
			t.Errorf("of nothing: %+v", s)
		}
		swap := func(m *loader.Model) {
			if err := current.Swap(m, tensor(t, m, "x")); err != nil {
				t.Error(err)
			}
		}
		swap(first)
		var over atomic.Bool
		var requests atomic.Uint64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				row := make([]float32, 64)
				for !over.Load() {
					x, lease, err := current.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if err := x.DequantizeRows(row, 7, 1); err != nil || row[5] != want[7*64+5] {
						t.Errorf("%v, %v instead of %v", err, row[5], want[7*64+5])
					}
					if _, err := x.Float32s(); err != nil {
						t.Error(err)
					}
					lease.Release()
					requests.Add(1)
					runtime.Gosched()
				}
			})
		}
		var swaps uint64
		for ; swaps < 50 || requests.Load() < 50; swaps++ {
			swap(openBytes(t, file, nil))
			runtime.Gosched() // where goroutines share one thread
		}
		over.Store(true)
		wg.Wait()

		_, lease, err := current.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := current.Stats()
		if before.Tensors != 1 || before.Closed || before.Leases != 1 || before.Draining != 0 || before.Swaps != swaps+1 || before.Hits+before.Expansions < requests.Load() {
			t.Errorf("after %d requests: %+v", requests.Load(), before)
		}
		if err := current.Close(); err != nil {
			t.Error(err)
		}
		if s := current.Stats(); s.Draining != 1 || !s.Closed || s.Leases != 1 || s.Tensors != 0 {
			t.Errorf("while it drains: %+v", s)
		}
		mapped := current.Stats().MappedBytes
		if n, err := current.ResidentBytes(); err != nil && !errors.Is(err, errors.ErrUnsupported) || n > mapped+uint64(os.Getpagesize()) {
			t.Errorf("while it drains %d bytes of %d are resident: %v", n, mapped, err)
		}
		lease.Release()
		if s := current.Stats(); s.Draining != 0 || s.Leases != 0 || s.MappedBytes+s.HeapBytes != 0 || s.Hits != before.Hits || s.Expansions != before.Expansions {
			t.Errorf("afterwards: %+v, before %+v", s, before)
		}
		if n, err := current.ResidentBytes(); n != 0 || err != nil {
			t.Errorf("of nothing: %d, %v", n, err)
		}
		if err := current.Close(); err != nil {
			t.Errorf("Close of nothing: %v", err)
		}
		late := openBytes(t, file, nil)
		if err := current.Swap(late, tensor(t, late, "x")); !errors.Is(err, loader.ErrClosed) || !errors.Is(late.Close(), loader.ErrClosed) || current.Stats().Swaps != before.Swaps {
			t.Errorf("after Close a model is swapped in, or stays open: %v", err)
		}
	})
}

// TestCurrentEnds asks for leases with an ended context, and of a model that somebody else has closed.
func TestCurrentEnds(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4, 4)), nil)
	var current loader.Current[struct{}]
	current.Swap(m, struct{}{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client has left")
	cancel(why)
	if _, l, err := current.Acquire(ctx); err == nil {
		if _, err = tensor(t, l, "x").Bytes(); !errors.Is(err, why) {
			t.Errorf("under an ended context: %v", err)
		}
		l.Release()
	} else if !errors.Is(err, why) {
		t.Error(err)
	}
	current.Swap(nil, struct{}{})
	if _, _, err := current.Acquire(t.Context()); !errors.Is(err, loader.ErrClosed) || !errors.Is(m.Close(), loader.ErrClosed) {
		t.Errorf("without a current model: %v", err)
	}
	m = openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4, 4)), nil)
	current.Swap(m, struct{}{})
	m.Close()
	if _, _, err := current.Acquire(t.Context()); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("closed by somebody else: %v", err)
	}
	if err := current.Close(); err != nil {
		t.Error(err)
	}
}

// TestCurrentWaits: Wait ends with the last lease of what was swapped out or closed, or with its context. A model that is swapped in
// again stays open.
func TestCurrentWaits(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4, 4))
	var current loader.Current[int]
	m := openBytes(t, file, nil)
	for bound := range 2 {
		if err := current.Swap(m, bound); err != nil {
			t.Fatal(err)
		}
	}
	bound, lease, err := current.Acquire(t.Context())
	if err != nil || bound != 1 {
		t.Fatalf("swapped in again: %d, %v", bound, err)
	}
	if err := current.Wait(t.Context()); err != nil {
		t.Errorf("nothing drains: %v", err)
	}
	current.Swap(nil, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no time left")
	cancel(why)
	if err := current.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("a lease is held: %v", err)
	}
	waits := func() {
		t.Helper()
		waited := make(chan error)
		go func() { waited <- current.Wait(t.Context()) }()
		lease.Release()
		if err := <-waited; err != nil || current.Stats().Draining != 0 {
			t.Errorf("%v, %+v", err, current.Stats())
		}
	}
	waits()

	m = openBytes(t, file, nil)
	if err := current.Swap(m, 2); err != nil {
		t.Fatal(err)
	}
	if _, lease, err = current.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Close() // not through current
	if err := current.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("a lease of the current model is held, which is closed: %v", err)
	}
	if s := current.Stats(); s.Draining != 1 || !s.Closed || s.Leases != 1 {
		t.Errorf("while the current model drains: %+v", s)
	}
	waits()
	current.Close()
	if s := current.Stats(); s.Draining != 0 {
		t.Errorf("closed twice: %+v", s)
	}
}

// TestCurrentInHooks: Hooks.Gone may call all methods of Current: they waited for the Swap that had called it. If it panics, the next
// model is served.
func TestCurrentInHooks(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4, 4))
	var current loader.Current[int]
	gone, panics := 0, false
	open := func() *loader.Model {
		return openBytes(t, file, &loader.Options{Hooks: loader.Hooks{Gone: func(time.Duration) {
			gone++
			if panics {
				panic(gone)
			}
			current.Stats()
			current.ResidentBytes()
			if err := current.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			current.Swap(nil, 0)
			current.Close()
		}}})
	}
	current.Swap(open(), 1)
	panics = true
	func() {
		defer func() { recover() }()
		current.Swap(open(), 2)
	}()
	panics = false
	bound, lease, err := current.Acquire(t.Context())
	if err != nil || bound != 2 || gone != 1 {
		t.Fatalf("%d, %v after %d models", bound, err, gone)
	}
	lease.Release()
	current.Swap(nil, 0)
	if err := current.Swap(open(), 3); !errors.Is(err, loader.ErrClosed) || gone != 3 {
		t.Errorf("closed by a hook: %v, %d models are gone", err, gone)
	}
}

// TestCurrentStays: a closed model, or one that was swapped out, does not take the place of the one that is served.
func TestCurrentStays(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4, 4))
	var current loader.Current[int]
	first, second := openBytes(t, file, nil), openBytes(t, file, nil)
	current.Swap(first, 1)
	_, held, err := current.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	current.Swap(second, 2)
	for range 2 {
		if err := current.Swap(first, 3); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("a closed model is served: %v", err)
		}
		if s := current.Stats(); s.Closed || s.Swaps != 2 {
			t.Errorf("%+v", s)
		}
		held.Release()
	}
	current.Close()
}
