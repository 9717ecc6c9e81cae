package loader_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestDone has a model drain: its channel is closed with the last lease, not before.
func TestDone(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("x", layout.F16, 100))
	eachWay(t, file, func(t *testing.T, m *loader.Model) {
		first, second := must(m.Acquire())(t), must(m.Acquire())(t)
		must(tensor(t, first, "x").Float32s())(t)
		if s := m.Stats(); s.Leases != 2 || s.Closed {
			t.Errorf("open: %+v", s)
		}
		m.Close()
		first.Release()
		if s := m.Stats(); s.Leases != 1 || !s.Closed || s.Expansions != 1 {
			t.Errorf("draining: %+v", s)
		}
		select {
		case <-m.Done():
			t.Error("gone under a lease")
		default:
		}
		second.Release()
		<-m.Done()
		if s := m.Stats(); s.Leases != 0 || s.MappedBytes+s.UnmappedBytes+s.HeapBytes != 0 || s.Tensors != 1 {
			t.Errorf("gone: %+v", s)
		}
	})
}

// TestHeldLeases names who has taken a lease and not released it.
func TestHeldLeases(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("x", layout.F16, 100))
	m := openBytes(t, file, &loader.Options{TraceLeases: true})
	l := must(m.Acquire())(t)
	must(m.Acquire())(t).Release()
	must(tensor(t, m, "x").Float32s())(t)
	held := m.HeldLeases()
	if len(held) != 1 || !strings.Contains(held[0].Stack, "loader_test.TestHeldLeases") || time.Since(held[0].Taken) > time.Minute {
		t.Errorf("%+v", held)
	}
	l.Release()
	if held := m.HeldLeases(); held != nil {
		t.Errorf("released: %+v", held)
	}
	untraced := openBytes(t, file, nil)
	defer must(untraced.Acquire())(t).Release()
	if held := untraced.HeldLeases(); held != nil {
		t.Errorf("%+v", held)
	}
}

// TestHooks counts events, and reads the log.
func TestHooks(t *testing.T) {
	var log bytes.Buffer
	var expanded []string
	gone := 0
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("a", layout.F16, 100), modeltest.Random("c", layout.C64, 4)), &loader.Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Hooks: loader.Hooks{
			Expanded: func(name string, bytes uint64, _ time.Duration, err error) {
				if err == nil && bytes == 400 || err != nil && bytes == 0 {
					expanded = append(expanded, name)
				}
			},
			Gone: func(time.Duration) { gone++ },
		},
	})
	must(tensor(t, m, "a").Float32s())(t)
	must(tensor(t, m, "a").Float32s())(t)
	if _, err := tensor(t, m, "c").Float32s(); err == nil {
		t.Error("complex numbers have values")
	}
	m.Close()
	if strings.Join(expanded, " ") != "a c" || gone != 1 {
		t.Errorf("expanded %q, gone %d times", expanded, gone)
	}
	if text := log.String(); !strings.Contains(text, "model opened") || !strings.Contains(text, "tensors=2") || !strings.Contains(text, "model gone") {
		t.Error(text)
	}
}

// TestLeaseOf reads bound tensors through leases, after Close too, without allocating.
func TestLeaseOf(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F16, 30, 4))
	eachWay(t, file, func(t *testing.T, m *loader.Model) {
		bound := tensor(t, m, "x")
		l := must(m.Acquire())(t)
		defer l.Release()
		m.Close()
		row := make([]float32, 4)
		if err := l.Of(bound).DequantizeRows(row, 3, 1); err != nil {
			t.Error(err)
		}
		if n := testing.AllocsPerRun(10, func() { bound = l.Of(bound) }); n != 0 {
			t.Errorf("%g allocations", n)
		}
		if other := tensor(t, openBytes(t, file, nil), "x"); l.Of(other) != other || l.Of(loader.Tensor{}) != (loader.Tensor{}) {
			t.Error("a tensor of another model has been taken over")
		}
	})
}
