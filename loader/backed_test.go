package loader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// backed is a distant file that keeps what was asked for in a file, by pages of backedPage.
type backed struct {
	*distant
	file  *os.File
	full  atomic.Bool // the file takes no more
	fetch func(ctx context.Context, p []byte, off int64) error

	mu   sync.Mutex
	have map[int64]bool
}

const backedPage = 1 << 6

// backed returns a cache of d on this disk, which is empty.
func (d *distant) backed(t testing.TB) *backed {
	f, err := os.Create(filepath.Join(t.TempDir(), "backing"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(d.size); err != nil {
		t.Fatal(err)
	}
	return &backed{distant: d, file: f, have: make(map[int64]bool)}
}

func (b *backed) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	s, err := b.distant.Open(ctx, name)
	if name == b.name {
		s.Local, s.Cache = b.file, b
	}
	return s, err
}

func (b *backed) SetFetch(fetch func(ctx context.Context, p []byte, off int64) error) {
	b.fetch = fetch
}

func (b *backed) lacks(lo, hi int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; lo < hi; lo++ {
		if !b.have[lo] {
			return true
		}
	}
	return false
}

func (b *backed) Fetch(ctx context.Context, off, n uint64) (kept bool, err error) {
	lo, hi := int64(off)/backedPage, (int64(off+n)+backedPage-1)/backedPage
	if !b.lacks(lo, hi) {
		return true, nil
	}
	if b.full.Load() {
		return false, nil
	}
	p := make([]byte, min(hi*backedPage, b.size)-lo*backedPage)
	fetch := b.fetch
	if fetch == nil {
		fetch = distantSource{b.distant}.ReadAt
	}
	if err := fetch(ctx, p, lo*backedPage); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.WriteAt(p, lo*backedPage); err != nil {
		return false, err
	}
	for ; lo < hi; lo++ {
		b.have[lo] = true
	}
	return true, nil
}

func (b *backed) Has(off, n uint64) bool {
	return !b.lacks(int64(off)/backedPage, (int64(off+n)+backedPage-1)/backedPage)
}

func (b *backed) open(t testing.TB, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.OpenReaderAt(context.Background(), b, b.size, opts)
	return modeltest.Opened(t, m, err)
}

// What has come is a view of the backing file: nothing is on the heap, and nothing is asked for again.
func TestBackedViews(t *testing.T) {
	tensors := tensorsOf("many")
	b := newDistant("m.safetensors", modeltest.SafeTensors(tensors...)).backed(t)
	m := b.open(t, nil)
	for i, c := range tensors {
		x := tensor(t, m, c.Name)
		got, err := x.Bytes()
		if err != nil || !bytes.Equal(got, c.Data) {
			t.Errorf("%s: %v", c.Name, err)
		}
		if x.ZeroCopy() != mapsBacking {
			t.Errorf("%s: zero copy is %v", c.Name, x.ZeroCopy())
		}
		b.traffic.reset()
		if again, err := x.Bytes(); err != nil || &again[0] != &got[0] || b.traffic.requests.Load() != 0 {
			t.Errorf("%s again: %v, %d requests", tensors[i].Name, err, b.traffic.requests.Load())
		}
	}
	if s := m.Stats(); mapsBacking && (s.HeapBytes != 0 || s.UnmappedBytes != 0) {
		t.Errorf("%+v", s)
	}
}

// Options.NoMap reads what is kept, too.
func TestBackedNoMap(t *testing.T) {
	c := modeltest.Random("x", layout.F32, 100, 100)
	m := newDistant("m.safetensors", modeltest.SafeTensors(c)).backed(t).open(t, &loader.Options{NoMap: true})
	x := tensor(t, m, "x")
	if got, err := x.Bytes(); err != nil || !bytes.Equal(got, c.Data) || x.ZeroCopy() || m.Stats().MappedBytes != 0 {
		t.Errorf("%v, zero copy %v, %+v", err, x.ZeroCopy(), m.Stats())
	}
}

// ReadAs of many values asks once: workers would ask for the share of each.
func TestBackedReadAs(t *testing.T) {
	b := newDistant("m.safetensors", modeltest.SafeTensors(modeltest.Random("x", layout.BF16, 1024, 256))).backed(t)
	x := tensor(t, b.open(t, nil), "x")
	b.traffic.reset()
	if err := x.ReadAs(t.Context(), make([]byte, 1<<20), layout.F32, 0); err != nil || b.traffic.requests.Load() != 1 {
		t.Errorf("%d requests, %v", b.traffic.requests.Load(), err)
	}
}

// A range costs what it holds.
func TestBackedRange(t *testing.T) {
	c := modeltest.Random("x", layout.F32, 4096, 256)
	b := newDistant("m.safetensors", modeltest.SafeTensors(c)).backed(t)
	x := tensor(t, b.open(t, nil), "x")
	b.traffic.reset()
	for _, read := range []func() error{
		func() error { return x.DequantizeRows(make([]float32, 256), 1000, 1) },
		func() error { return x.DequantizeRange(make([]float32, 100), 500000) },
		func() error { _, err := x.ReadAt(make([]byte, 100), 3000000); return err },
	} {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if requests, n := b.traffic.requests.Swap(0), b.traffic.bytes.Swap(0); requests != 1 || n > 1024+2*backedPage {
			t.Errorf("%d requests for %d bytes", requests, n)
		}
	}
}

// A file that takes no more turns the model into one that is read; views that were handed out stay.
func TestBackedFull(t *testing.T) {
	tensors := tensorsOf("many")
	file := modeltest.SafeTensors(tensors...)
	for name, opts := range map[string]*loader.Options{"plain": nil, "trusted": {Trust: plainTrust{"m.safetensors": modeltest.Digests(file, testChunk)}}} {
		t.Run(name, func(t *testing.T) {
			b := newDistant("m.safetensors", file).backed(t)
			m := b.open(t, opts)
			view, err := tensor(t, m, "c").Bytes()
			if err != nil {
				t.Fatal(err)
			}
			b.full.Store(true)
			for _, c := range tensors {
				if got, err := tensor(t, m, c.Name).Bytes(); err != nil || !bytes.Equal(got, c.Data) {
					t.Errorf("%s: %v", c.Name, err)
				}
				for way, do := range waysOut {
					if err := do(tensor(t, m, c.Name)); err != nil {
						t.Errorf("%s of %s: %v", way, c.Name, err)
					}
				}
			}
			if m.Stats().UnmappedBytes == 0 {
				t.Error("still counts as mapped")
			}
			if !bytes.Equal(view, tensors[2].Data) {
				t.Error("a view changed")
			}
		})
	}
}

// A full file and a server that lies: what is read past the file is verified as it arrives.
func TestBackedFullLies(t *testing.T) {
	file := modeltest.SafeTensors(tensorsOf("many")...)
	r := &countingReader{b: file}
	d := newDistant("m.safetensors", file)
	d.r = r
	b := d.backed(t)
	m := b.open(t, &loader.Options{Trust: plainTrust{"m.safetensors": modeltest.Digests(file, testChunk)}})
	b.full.Store(true)
	r.lie.Store(true)
	if _, err := tensor(t, m, "e").Bytes(); !errors.Is(err, layout.ErrChecksum) {
		t.Error(err)
	}
}

// A backing file of another size is refused.
func TestBackedSize(t *testing.T) {
	b := newDistant("m.safetensors", modeltest.SafeTensors(tensorsOf("many")...)).backed(t)
	b.file.Truncate(b.size - 1)
	if !mapsFiles {
		t.Skip("nothing maps")
	}
	if m, err := loader.OpenReaderAt(t.Context(), b, b.size, nil); !errors.Is(err, loader.ErrRange) {
		if err == nil {
			m.Close()
		}
		t.Error(err)
	}
}

// TestBackedWriteAs: what is encoded comes by large requests, as other reads of all.
func TestBackedWriteAs(t *testing.T) {
	b := newDistant("m.safetensors", modeltest.SafeTensors(modeltest.Finite("x", layout.F32, 2<<20))).backed(t)
	m := b.open(t, nil)
	b.traffic.reset()
	_, err := tensor(t, m, "x").WriteAs(t.Context(), io.Discard, layout.BF16)
	if n := b.traffic.requests.Load(); n != 1 || err != nil {
		t.Errorf("%d requests for 8 MiB; %v", n, err)
	}
}
