package loader_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestCloseDuringCall closes the model in the middle of a call. Close returns at once, the
// call finishes on its memory, and the mapping goes with it.
func TestCloseDuringCall(t *testing.T) {
	c := modeltest.Random("x", layout.Q8_0, 4096, 1024) // more than one chunk of Verify
	file := modeltest.APR2Model(t, nil, c)
	tests := []struct {
		name string
		call func(m *loader.Model, x loader.Tensor, pause func()) error
	}{
		{"Verify", func(m *loader.Model, _ loader.Tensor, pause func()) error {
			r, err := m.Verify(context.Background(), &loader.VerifyOptions{Progress: func(_, _ uint64) { pause() }})
			if err != nil {
				return err
			}
			return r.Err()
		}},
		{"WriteTo", func(_ *loader.Model, x loader.Tensor, pause func()) error {
			var got bytes.Buffer
			_, err := x.WriteTo(writerFunc(func(b []byte) (int, error) {
				pause()
				return got.Write(b)
			}))
			if err == nil && !bytes.Equal(got.Bytes(), c.Data) {
				err = errors.New("other bytes written")
			}
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := modeltest.Write(t, "model", file)
			m := openPath(t, path, nil)
			inside, goOn := make(chan struct{}, 1<<10), make(chan struct{})
			result := make(chan error)
			x := tensor(t, m, "x")
			go func() {
				result <- tt.call(m, x, func() {
					inside <- struct{}{}
					<-goOn
				})
			}()
			<-inside
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if _, err := x.Bytes(); !errors.Is(err, loader.ErrClosed) {
				t.Errorf("the model is not closed: %v", err)
			}
			checkMappedUntil(t, path, goOn, result)
		})
	}
}

// checkMappedUntil lets a call that runs in spite of Close go on, and wants the mapping to go with it.
func checkMappedUntil(t *testing.T, path string, goOn chan<- struct{}, result <-chan error) {
	t.Helper()
	if mapped(t, path) != 1 {
		t.Error("unmapped during the call")
	}
	close(goOn)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if mapped(t, path) != 0 {
		t.Error("still mapped after the call")
	}
}

func TestLeaseHoldsMapping(t *testing.T) {
	c := modeltest.Random("x", layout.F32, 1000)
	path := modeltest.Write(t, "model", modeltest.SafeTensors(c))
	m := openPath(t, path, nil)
	first, second := must(m.Acquire())(t), must(m.Acquire())(t)
	view, err := tensor(t, first, "x").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	second.Release()
	if mapped(t, path) != 1 || !slices.Equal(view, c.Data) {
		t.Error("unmapped under a lease")
	}
	first.Release()
	if mapped(t, path) != 0 {
		t.Error("still mapped after the last lease")
	}
}

// TestReleaseDuringCall: a call through the lease finishes, and then lets go.
func TestReleaseDuringCall(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("three")...))
	m := openPath(t, path, nil)
	l := must(m.Acquire())(t)
	x := tensor(t, l, "f32")
	inside, goOn, result := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := x.WriteTo(writerFunc(func(b []byte) (int, error) {
			inside <- struct{}{}
			<-goOn
			if !slices.Equal(b, modeltest.Random("f32", layout.F32, 3, 4).Data) {
				return 0, errors.New("other bytes")
			}
			return len(b), nil
		}))
		result <- err
	}()
	<-inside
	released := make(chan struct{})
	go func() {
		m.Close()
		l.Release()
		close(released)
	}()
	<-released // neither waits for the call
	if _, err := x.Bytes(); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("the lease is not released: %v", err)
	}
	checkMappedUntil(t, path, goOn, result)
}
