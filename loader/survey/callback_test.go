package survey_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

var errCallback = errors.New("the caller's callback panicked")

// TestProgressPanics has a callback end in a worker, at the beginning and at the end of the
// work.
func TestProgressPanics(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{3 << 20}, Data: make([]byte, 3<<20)}, floats("b", make([]float32, 1<<20)))
	ctx := context.Background()
	for name, callback := range map[string]func(){"panic": func() { panic(errCallback) }, "Goexit": runtime.Goexit} {
		for verb, run := range map[string]func(m *loader.Model, o survey.Options){
			"Stats": func(m *loader.Model, o survey.Options) { allStats(ctx, m, &survey.StatsOptions{Options: o}) },
			"Hash": func(m *loader.Model, o survey.Options) {
				allDigests(ctx, m, &survey.HashOptions{Options: o, Stored: true})
			},
			"Compare": func(m *loader.Model, o survey.Options) { allPairs(ctx, m, m, &o) },
		} {
			for _, workers := range []int{1, 4} {
				for _, atEnd := range []bool{false, true} {
					m, err := loader.OpenBytes(file, nil)
					if err != nil {
						t.Fatal(err)
					}
					panicked, exited := paralleltest.Ending(func() {
						run(m, survey.Options{Workers: workers, Progress: func(done, total uint64) {
							if !atEnd || done == total {
								callback()
							}
						}})
					})
					if name == "panic" && panicked != errCallback || name == "Goexit" && !exited {
						t.Errorf("%s, %s, %d workers, at end %v: recovered %v, exited %v", verb, name, workers, atEnd, panicked, exited)
					}
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

// TestChangedMeanwhile cuts a file within its last page while it is gone through.
func TestChangedMeanwhile(t *testing.T) {
	testmode.ChangesMapped(t)
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{3 << 20}, Data: make([]byte, 3<<20)})
	for verb, run := range map[string]func(m *loader.Model, o survey.Options) error{
		"Stats": func(m *loader.Model, o survey.Options) error {
			_, err := allStats(t.Context(), m, &survey.StatsOptions{Options: o})
			return err
		},
		"Hash": func(m *loader.Model, o survey.Options) error {
			_, err := allDigests(t.Context(), m, &survey.HashOptions{Options: o})
			return err
		},
		"Compare": func(m *loader.Model, o survey.Options) error {
			_, err := allPairs(t.Context(), openBytes(t, file), m, &o)
			return err
		},
	} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		m := open(t, path, nil)
		cut := func(done, total uint64) {
			if err := os.Truncate(path, int64(len(file))-1); err != nil {
				t.Error(err)
			}
		}
		if err := run(m, survey.Options{Progress: cut}); !errors.Is(err, mmapio.ErrChanged) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestClosedMeanwhile: a pair has a tensor although its model, which is both, has been closed since.
func TestClosedMeanwhile(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 100 {
		tensors = append(tensors, modeltest.Tensor{Name: fmt.Sprintf("%03d", i), DType: layout.U8, Shape: []int{4}, Data: make([]byte, 4)})
	}
	m := openBytes(t, modeltest.SafeTensors(tensors...))
	err := survey.Compare(t.Context(), m, m, &survey.Options{Workers: 1}, func(p *survey.Pair) error {
		if p.A == nil && p.B == nil {
			t.Errorf("%s is in neither model", p.Name)
		}
		return m.Close()
	})
	if !errors.Is(err, loader.ErrClosed) {
		t.Error(err)
	}
}

// TestSampleSerial: one goroutine at a time asks for a sample.
func TestSampleSerial(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 64 {
		tensors = append(tensors, floats(fmt.Sprint(i), make([]float32, 64)))
	}
	var calls atomic.Int32
	sample := func(loader.Tensor) ([]uint64, uint64) {
		if calls.Add(1) > 1 {
			t.Error("two calls at once")
		}
		time.Sleep(time.Millisecond)
		calls.Add(-1)
		return []uint64{0}, 4
	}
	err := survey.Stats(t.Context(), openBytes(t, modeltest.SafeTensors(tensors...)), &survey.StatsOptions{Options: survey.Options{Workers: 4}, Sample: sample},
		func(s *survey.TensorStats) error { return s.Err })
	if err != nil {
		t.Error(err)
	}
}

// TestEach: results come one at a time, in order, and the first error of whoever takes them ends
// the work.
func TestEach(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 300 {
		n := 1 + i%7*3000
		tensors = append(tensors, modeltest.Tensor{Name: fmt.Sprintf("%03d", (i*7)%300), DType: layout.U8, Shape: []int{n}, Data: make([]byte, n)})
	}
	m := openBytes(t, modeltest.SafeTensors(tensors...))
	names := func(all iter.Seq[loader.Tensor]) (names []string) {
		for t := range all {
			names = append(names, t.Name())
		}
		return names
	}
	inFile := names(m.Tensors())
	byName := slices.Sorted(slices.Values(inFile))
	for _, stop := range []int{len(tensors), 0, 123} {
		var got []string
		each := func(name string) error {
			if len(got) == stop {
				return errCallback
			}
			got = append(got, name)
			return nil
		}
		o := survey.Options{Workers: 4}
		for verb, test := range map[string]struct {
			err  func() error
			want []string
		}{
			"Stats": {func() error {
				return survey.Stats(t.Context(), m, &survey.StatsOptions{Options: o, Bins: 2}, func(s *survey.TensorStats) error { return each(s.Tensor.Name()) })
			}, inFile},
			"Hash": {func() error {
				return survey.Hash(t.Context(), m, &survey.HashOptions{Options: o}, func(d *survey.TensorDigest) error { return each(d.Tensor.Name()) })
			}, byName},
			"Compare": {func() error {
				return survey.Compare(t.Context(), m, m, &o, func(p *survey.Pair) error { return each(p.Name) })
			}, inFile},
		} {
			got = nil
			var want error
			if stop < len(tensors) {
				want = errCallback
			}
			if err := test.err(); err != want || !slices.Equal(got, test.want[:stop]) {
				t.Errorf("%s until %d: %v, %d results", verb, stop, err, len(got))
			}
		}
	}
}

// TestLockedThread surveys from a goroutine that is locked to its thread, as that of a window or of init is.
func TestLockedThread(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 50 {
		tensors = append(tensors, floats(fmt.Sprint(i), make([]float32, 1000)))
	}
	m := openBytes(t, modeltest.SafeTensors(tensors...))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := 0
	err := survey.Stats(t.Context(), m, nil, func(*survey.TensorStats) error { n++; return nil })
	if n != len(tensors) || err != nil {
		t.Errorf("%d of %d tensors, %v", n, len(tensors), err)
	}
}
