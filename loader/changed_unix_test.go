//go:build unix

package loader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"golang.org/x/sys/unix"
)

// rewrite changes the last byte of a file in place. Size and time of modification stay.
func rewrite(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b := must(os.ReadFile(path))(t)
	b[len(b)-1]++
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	changedAt := func() unix.Timespec { // the inode
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Ctim
	}
	for before := changedAt(); changedAt() == before; { // until the clock that stamps inodes has ticked
		_, err = f.WriteAt(b, 0)
		if err := errors.Join(err, os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
}

// wantChanged wants err to be ErrChanged and to name the file once.
func wantChanged(t *testing.T, what string, err error, path string) {
	t.Helper()
	if !errors.Is(err, mmapio.ErrChanged) || strings.Count(err.Error(), path) != 1 {
		t.Errorf("%s: %v", what, err)
	}
}

// TestCutInLastPage cuts a mapped file within its last page: what is lost reads as zeros, and
// nothing faults. The format has no checksum.
func TestCutInLastPage(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("f16", layout.F16, 2000), modeltest.Random("large", layout.F32, 4<<20))
	tail := int64(len(file) % os.Getpagesize())
	for _, by := range []int64{1, tail / 2, tail - 1} {
		path := modeltest.Write(t, "model", file)
		m := openPath(t, path, nil)
		large := tensor(t, m, "large")
		if _, err := m.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(file))-by); err != nil {
			t.Fatal(err)
		}
		_, err := m.Verify(t.Context(), nil)
		wantChanged(t, "Verify", err, path)
		_, err = m.WarmAll(t.Context(), nil)
		wantChanged(t, "Warm", err, path)
		wantChanged(t, "Changed", m.Changed(), path)
		_, err = tensor(t, m, "f16").Float32s() // into the cache
		wantChanged(t, "Float32s", err, path)
		wantChanged(t, "Dequantize", large.Dequantize(make([]float32, large.Elements())), path)
		_, err = large.WriteTo(io.Discard)
		wantChanged(t, "WriteTo", err, path)
		_, err = large.WriteDecrypted(io.Discard)
		wantChanged(t, "WriteDecrypted", err, path)
		_, err = large.ReadAt(make([]byte, large.RawBytes()), 0)
		wantChanged(t, "ReadAt", err, path)
		for _, err = range large.Values(make([]float32, large.Elements())) {
		}
		wantChanged(t, "Values", err, path)
		if s := m.Stats(); s.HeapBytes != 0 {
			t.Errorf("zeros are cached: %+v", s)
		}
	}
}

// TestVerifyChangedMeanwhile changes the file from a callback.
func TestVerifyChangedMeanwhile(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, 3*loader.CRCChunk))
	for what, change := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.Truncate(path, int64(len(file)-1)) },
		"rewritten": func(path string) error { rewrite(t, path); return nil },
		"grown":     func(path string) error { return os.Truncate(path, int64(len(file)+1)) },
	} {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			path := modeltest.Write(t, "model", file)
			m := openPath(t, path, opts)
			done := false
			_, err := m.Verify(t.Context(), &loader.VerifyOptions{Workers: 1, Progress: func(_, _ uint64) {
				if !done {
					done = true
					if err := change(path); err != nil {
						t.Fatal(err)
					}
				}
			}})
			if opts != nil && errors.Is(err, io.ErrUnexpectedEOF) {
				continue // a read has met the new end
			}
			wantChanged(t, what, err, path)
		}
	}
}

// TestShardRewritten rewrites a shard in place between opening and its first touch.
func TestShardRewritten(t *testing.T) {
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		dir := t.TempDir()
		path := writeShards(t, dir, nil, tensorsOf("three")...)
		for _, m := range []*loader.Model{openPath(t, path, opts), openPath(t, filepath.Join(dir, "model.apr"), opts)} {
			shard := m.Files()[1].Path
			rewrite(t, shard)
			x := m.Files()[1].Path
			wantChanged(t, "Changed", m.Changed(), shard)
			_, err := tensor(t, m, "i8").Bytes()
			wantChanged(t, "Bytes", err, shard)
			_, err = m.Verify(t.Context(), nil)
			wantChanged(t, "Verify", err, x)
		}
	}
}

// TestChanged says what counts as a change, however a model is opened.
func TestChanged(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 100))
	for _, test := range []struct {
		what    string
		change  func(path string) error
		changed bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"rewritten", func(path string) error { rewrite(t, path); return nil }, true},
		{"cut", func(path string) error { return os.Truncate(path, 50) }, true},
		{"replaced", func(path string) error {
			return errors.Join(os.WriteFile(path+"x", file, 0o666), os.Rename(path+"x", path))
		}, true},
		{"removed", os.Remove, false},
	} {
		for _, w := range localWays {
			path := modeltest.Write(t, "model", file)
			m, err := w.open(t, path, nil)
			m = modeltest.Opened(t, m, err)
			if err := m.Changed(); err != nil {
				t.Errorf("%s, %s, before: %v", test.what, w.name, err)
			}
			l := must(m.Acquire())(t)
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
			if test.changed && w.name != "OpenBytes" {
				wantChanged(t, test.what+", "+w.name, m.Changed(), path)
				wantChanged(t, test.what+", "+w.name+", lease", l.Changed(), path)
			} else if err := m.Changed(); err != nil {
				t.Errorf("%s, %s: %v", test.what, w.name, err)
			}
			l.Release()
			if err := l.Changed(); !errors.Is(err, loader.ErrClosed) {
				t.Errorf("after Release: %v", err)
			}
		}
	}
}

// TestChangedElsewhere: neither a process that goes elsewhere nor a file that is called as
// another one makes a change.
func TestChangedElsewhere(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 100))
	here, elsewhere := t.TempDir(), t.TempDir()
	modeltest.WriteTo(t, filepath.Join(here, "model"), file)
	modeltest.WriteTo(t, filepath.Join(elsewhere, "model"), file)
	t.Chdir(here)
	m := openPath(t, "model", nil)
	f, err := os.Open("model")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Chdir(elsewhere) // f's name now leads to another file
	if err := m.Changed(); err != nil {
		t.Error(err)
	}
	m, err = loader.OpenFile(f, nil)
	if err := modeltest.Opened(t, m, err).Changed(); err != nil {
		t.Error(err)
	}
}

// TestErrorsNameFileOnce reads what has been cut off, mapped and not, in one file and in shards.
func TestErrorsNameFileOnce(t *testing.T) {
	c := modeltest.Random("x", layout.F32, 1<<16)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		single := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, c))
		models := map[string]*loader.Model{
			"Open": openPath(t, single, opts), "OpenFile": kindsNamed("OpenFile")[0].at(t, single, opts),
			"shards": openPath(t, writeShards(t, t.TempDir(), nil, c), opts),
		}
		for way, m := range models {
			x, path := tensor(t, m, "x"), m.Files()[0].Path
			if err := x.DequantizeRange(make([]float32, 1), 0); err != nil { // so that it is open
				t.Fatal(err)
			}
			if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
			_, bytesErr := x.Float32s()
			_, verifyErr := m.Verify(context.Background(), nil)
			_, writeErr := x.WriteTo(new(bytes.Buffer))
			for what, err := range map[string]error{
				"Dequantize": x.Dequantize(make([]float32, x.Elements())), "Float32s": bytesErr, "Verify": verifyErr, "WriteTo": writeErr,
			} {
				if c.DType == layout.F32 && what == "Float32s" && opts == nil {
					continue // a view
				}
				if err == nil || strings.Count(err.Error(), filepath.Base(path)) != 1 || !strings.HasPrefix(err.Error(), path+": ") {
					t.Errorf("%s, %+v, %s: %v", way, opts, what, err)
				}
			}
			os.Truncate(path, 0)
			os.WriteFile(path, modeltest.APR2Model(t, nil, c), 0o666) // for the next one
		}
	}
}
