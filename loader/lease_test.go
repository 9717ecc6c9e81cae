package loader_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestLeaseOutlivesClose(t *testing.T) {
	eachWay(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), func(t *testing.T, m *loader.Model) {
		want := modeltest.Random("f32", layout.F32, 3, 4).Data
		direct := tensor(t, m, "i8")
		l := must(m.Acquire())(t)
		early := tensor(t, l, "i8")
		view, err := tensor(t, l, "f32").Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(view, want) {
			t.Error("view changed with Close")
		}
		late := tensor(t, l, "i8")
		for name, call := range tensorCalls {
			if err := errors.Join(call(early), call(late)); err != nil {
				t.Errorf("%s through the lease after Close: %v", name, err)
			}
			if err := call(direct); err != nil {
				t.Errorf("%s past the lease after Close: %v", name, err)
			}
		}
		if got := names(l.Tensors()); len(got) != 3 {
			t.Errorf("iteration through the lease: %v", got)
		}
		if _, err := m.Acquire(); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("Acquire after Close: %v", err)
		}
		if !slices.Equal(view, want) {
			t.Error("view changed under the lease")
		}
		l.Release()
		checkReleased(t, l, early)
		checkReleased(t, l, direct)
	})
}

func checkReleased(t *testing.T, l *loader.Lease, x loader.Tensor) {
	t.Helper()
	for range 2 {
		for name, call := range tensorCalls {
			if err := call(x); !errors.Is(err, loader.ErrClosed) {
				t.Errorf("%s after Release: %v", name, err)
			}
		}
		if _, err := l.Tensor(x.Name()); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("Tensor after Release: %v", err)
		}
		if got := names(l.Tensors()); got != nil {
			t.Errorf("Tensors after Release: %v", got)
		}
		if x.Name() != "i8" || x.DType() != layout.I8 {
			t.Error("description is gone")
		}
		l.Release() // again: does nothing
	}
}

func TestReleaseLeavesModelOpen(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), nil)
	first, second := must(m.Acquire())(t), must(m.Acquire())(t)
	x := tensor(t, first, "i8")
	first.Release()
	checkReleased(t, first, x)
	for name, call := range tensorCalls {
		if err := errors.Join(call(tensor(t, m, "i8")), call(tensor(t, second, "i8"))); err != nil {
			t.Errorf("%s after another lease's Release: %v", name, err)
		}
	}
	second.Release()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeaseNotFound(t *testing.T) {
	l := must(openBytes(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), nil).Acquire())(t)
	defer l.Release()
	if _, err := l.Tensor("none"); !errors.Is(err, loader.ErrNotFound) {
		t.Error(err)
	}
}

// TestSecondReleaseIsHarmless: only the first gives the model back.
func TestSecondReleaseIsHarmless(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), nil)
	l, other := must(m.Acquire())(t), must(m.Acquire())(t)
	m.Close()
	l.Release()
	l.Release()
	if b, err := tensor(t, other, "f32").Bytes(); err != nil || !slices.Equal(b, modeltest.Random("f32", layout.F32, 3, 4).Data) {
		t.Errorf("a double Release pulled the model from under another lease: %v", err)
	}
	other.Release()
}

// TestLeaseForgetsFailures: what cannot be expanded costs a lease nothing, however often it is
// tried.
func TestLeaseForgetsFailures(t *testing.T) {
	c := compressible("x", layout.U8, 100_000)
	c.LZ4 = modeltest.Blocks(t, c.Data)
	copy(c.LZ4[4:], []byte{0, 0, 0})
	m := openBytes(t, lz4Model(t, c), nil)
	l := must(m.Acquire())(t)
	defer l.Release()
	for range 3 {
		if _, err := tensor(t, l, "x").Bytes(); !errors.Is(err, layout.ErrInvalid) {
			t.Error(err)
		}
	}
	if n := loader.Pins(l); n != 0 {
		t.Errorf("%d entries are pinned", n)
	}
	if _, err := tensor(t, l, "before").Float32s(); err != nil || loader.Pins(l) != 1 {
		t.Errorf("%d entries are pinned, %v", loader.Pins(l), err)
	}
}
