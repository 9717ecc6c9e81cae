package survey_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

var errCallback = errors.New("the caller's callback panicked")

// TestProgressPanics has a callback end in a worker, at the beginning and at the end of the
// work.
func TestProgressPanics(t *testing.T) {
	file := safeTensors(t, tensor{"a", layout.U8, []uint64{3 << 20}, make([]byte, 3<<20)}, floats("b", make([]float32, 1<<20)))
	ctx := context.Background()
	for name, callback := range map[string]func(){"panic": func() { panic(errCallback) }, "Goexit": runtime.Goexit} {
		for verb, run := range map[string]func(m *loader.Model, o survey.Options){
			"Stats": func(m *loader.Model, o survey.Options) { survey.Stats(ctx, m, &survey.StatsOptions{Options: o}) },
			"Hash": func(m *loader.Model, o survey.Options) {
				survey.Hash(ctx, m, &survey.HashOptions{Options: o, Stored: true})
			},
			"Compare": func(m *loader.Model, o survey.Options) { survey.Compare(ctx, m, m, &o) },
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
	file := safeTensors(t, tensor{"a", layout.U8, []uint64{3 << 20}, make([]byte, 3<<20)})
	for verb, run := range map[string]func(m *loader.Model, o survey.Options) error{
		"Stats": func(m *loader.Model, o survey.Options) error {
			_, err := survey.Stats(t.Context(), m, &survey.StatsOptions{Options: o})
			return err
		},
		"Hash": func(m *loader.Model, o survey.Options) error {
			_, err := survey.Hash(t.Context(), m, &survey.HashOptions{Options: o})
			return err
		},
		"Compare": func(m *loader.Model, o survey.Options) error {
			_, err := survey.Compare(t.Context(), openBytes(t, file), m, &o)
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
