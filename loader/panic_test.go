package loader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

var errCallback = errors.New("a callback of the caller's panicked")

// callbacks end as they should not.
var callbacks = map[string]func(){
	"panic":  func() { panic(errCallback) },
	"Goexit": runtime.Goexit, // as FailNow of a test does
}

// checkEnding holds how f ended against what a callback called so does.
func checkEnding(t *testing.T, what, callback string, f func()) {
	t.Helper()
	panicked, exited := paralleltest.Ending(f)
	if callback == "panic" && panicked != errCallback || callback == "Goexit" && !exited {
		t.Errorf("%s, %s: recovered %v, exited %v", what, callback, panicked, exited)
	}
}

// checkClose makes sure that m is not held by a call that has ended.
func checkClose(t *testing.T, m *loader.Model) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Evict(); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestProgressPanics has callbacks of long work end in workers.
func TestProgressPanics(t *testing.T) {
	raw := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 3*loader.CRCChunk), modeltest.Random("y", layout.U8, 3*loader.CRCChunk))
	ctx := context.Background()
	for name, callback := range callbacks {
		eachWay(t, raw, func(t *testing.T, m *loader.Model) {
			for _, workers := range []int{1, 8} {
				for _, at := range []int{1, 3} {
					calls := 0
					progress := func(_, _ uint64) {
						if calls++; calls == at {
							callback()
						}
					}
					checkEnding(t, "Verify", name, func() { m.Verify(ctx, &loader.VerifyOptions{Workers: workers, Progress: progress}) })
					calls = at - 1 // there is one portion
					checkEnding(t, "Warm", name, func() { m.WarmAll(ctx, &loader.WarmOptions{Readers: workers, Progress: progress}) })
				}
			}
			checkClose(t, m)
		})
	}
}

// TestVerifyBlocksPanics has the callback end in the workers that expand blocks.
func TestVerifyBlocksPanics(t *testing.T) {
	b := lz4Model(t, compressible("x", layout.U8, 1<<20))
	for name, callback := range callbacks {
		m := openBytes(t, b, nil)
		var summed uint64
		if r, err := m.Verify(context.Background(), nil); err != nil {
			t.Fatal(err)
		} else {
			summed = r.BytesRead
		}
		checkEnding(t, "Verify", name, func() {
			m.Verify(context.Background(), &loader.VerifyOptions{Workers: 4, Progress: func(done, _ uint64) {
				if done > summed {
					callback()
				}
			}})
		})
	}
}

// failingReader ends as end does once it is told to, and has siblings of its kind.
type failingReader struct {
	io.ReaderAt
	armed *bool
	end   func()
}

func (r failingReader) ReadAt(p []byte, off int64) (int, error) {
	if *r.armed {
		r.end()
	}
	return r.ReaderAt.ReadAt(p, off)
}

// TestReaderPanics has a reader of the caller's end in the workers that read from it.
func TestReaderPanics(t *testing.T) {
	b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 3*loader.CRCChunk))
	for name, end := range callbacks {
		armed := false
		m, err := loader.OpenReaderAt(context.Background(), failingReader{bytes.NewReader(b), &armed, end}, int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		armed = true
		ctx := context.Background()
		checkEnding(t, "Warm", name, func() { warmTensors(ctx, m, "x") })
		checkEnding(t, "Verify", name, func() { m.Verify(ctx, nil) })
		checkEnding(t, "Bytes", name, func() { tensor(t, m, "x").Bytes() })
		armed = false
		if got, err := tensor(t, m, "x").Bytes(); err != nil || len(got) != 3*loader.CRCChunk {
			t.Errorf("afterwards: %d bytes, %v", len(got), err)
		}
		checkClose(t, m)
	}
}

// endingCloser is a reader that panics if it is among the first two that are closed.
type endingCloser struct{ *distant }

func (d endingCloser) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	s, err := d.distant.sibling(ctx, name)
	if err != nil {
		return loader.FolderFile{}, err
	}
	if s == d.distant {
		return d.distant.Open(ctx, name)
	}
	return loader.FolderFile{Name: s.name, Source: endingSource{distantSource{s}}}, nil
}

type endingSource struct{ distantSource }

func (d endingSource) Close() error {
	if d.distant.Close(); d.traffic.closed.Load() < 3 {
		panic("close")
	}
	return nil
}

// TestClosePanics: the other readers are closed, and the model is gone.
func TestClosePanics(t *testing.T) {
	path := filepath.Join(testdata, "shards", "apr2/model.apr")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := newDistant(path, b)
	m, err := loader.OpenReaderAt(t.Context(), endingCloser{d}, d.size, nil)
	if err != nil {
		t.Fatal(err)
	}
	if panicked, _ := paralleltest.Ending(func() { m.Close() }); panicked != "close" {
		t.Errorf("recovered %v", panicked)
	}
	select {
	case <-m.Done():
	default:
		t.Error("the model is not gone")
	}
	if n := d.traffic.closed.Load(); n != 4 {
		t.Errorf("%d files are closed", n)
	}
}
